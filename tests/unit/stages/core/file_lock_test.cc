#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "stages/core/files.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum {
namespace {

TEST(FileLockTest, AFolderAndAFileInItAreLockedApart) {
  const testing::TemporaryDirectory folder;
  const auto on_folder = FileLock::Take(folder.path());
  const auto on_file = FileLock::Take(folder.File("made.lock"));
  EXPECT_TRUE(on_folder.ok()) << on_folder.status();
  EXPECT_TRUE(on_file.ok()) << on_file.status();
  EXPECT_TRUE(std::filesystem::exists(folder.File("made.lock")));
  EXPECT_EQ(FileLock::Take(folder.path()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FileLock::Take(folder.File("made.lock")).status().code(), absl::StatusCode::kUnavailable);
}

TEST(FileLockTest, GoesWithItsObjectAndMovesWithIt) {
  const testing::TemporaryDirectory folder;
  {
    auto first = FileLock::Take(folder.path());
    const FileLock moved = *std::move(first);
    EXPECT_EQ(FileLock::Take(folder.path()).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(FileLock::Take(folder.path()).ok());
}

TEST(FileLockTest, GoesWithItsProcess) {
  const testing::TemporaryDirectory folder;
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FileLock::Take(folder.path());
    _exit(lock.ok() ? 0 : 1);  // without destructors, as a killed process
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(FileLock::Take(folder.path()).ok());
}

TEST(FileLockTest, APlaceThatIsNotThereIsAnError) {
  const testing::TemporaryDirectory folder;
  EXPECT_EQ(FileLock::Take(folder.File("absent/file")).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace fulcrum
