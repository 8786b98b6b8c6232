#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "stages/core/files.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum {
namespace {

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t FilesIn(const std::string& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

class AtomicFileTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const std::string path = folder_.File("out.csv");
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("hello").ok());
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ContentOf(path), "hello");
  EXPECT_EQ(FilesIn(folder_.path()), 1u);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  const std::string path = folder_.Write("out.csv", "old");
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("new").ok());
  }
  EXPECT_EQ(ContentOf(path), "old");
  EXPECT_EQ(FilesIn(folder_.path()), 1u);
}

TEST_F(AtomicFileTest, KeepsThePermissionsOfAFileItReplaces) {
  const std::string path = folder_.Write("out.csv", "old");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok() && file->Commit().ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, WritesThroughALinkToTheFileItNames) {
  const std::string target = folder_.Write("target.csv", "old");
  const std::string link = folder_.File("link.csv");
  std::filesystem::create_symlink(target, link);
  auto file = AtomicFile::Create(link);
  ASSERT_TRUE(file.ok() && file->Write("new").ok() && file->Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ContentOf(target), "new");
}

TEST_F(AtomicFileTest, NeverReplacesAPipe) {
  const std::string path = folder_.File("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  // Opened for both, so that neither end waits for the other.
  std::fstream reader(path, std::ios::in | std::ios::out);
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("through\n").ok());
    ASSERT_TRUE(file->Commit().ok());
  }
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST_F(AtomicFileTest, APlaceThatCannotBeWrittenToIsAUsageError) {
  EXPECT_EQ(AtomicFile::Create(folder_.path()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create(folder_.File("absent/out.csv")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AtomicFileTest, AFullDiskIsToldAsSuch) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  auto file = AtomicFile::Create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Write("too much").code(), absl::StatusCode::kResourceExhausted);
}

TEST(Crc32, GivesThePublishedCheckValueInOneOrSeveralPieces) {
  Crc32 whole, pieces;
  whole.Add("123456789");
  pieces.Add("1234");
  pieces.Add("56789");
  EXPECT_EQ(whole.ToText(), "crc32:cbf43926");
  EXPECT_EQ(pieces.ToText(), whole.ToText());
  EXPECT_EQ(Crc32().ToText(), "crc32:00000000");
}

}  // namespace
}  // namespace fulcrum
