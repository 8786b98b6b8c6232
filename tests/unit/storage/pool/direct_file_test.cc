#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "stages/core/random.h"
#include "storage/pool/pool_block.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

class DirectFileTest : public ::testing::Test {
 protected:
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static std::string RandomBytes(std::size_t count) {
    Random random(5);
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
    return bytes;
  }

  const testing::TemporaryDirectory folder_;
};

TEST_F(DirectFileTest, HoldsWhatWasWrittenHoweverItWasCut) {
  // More than all buffers together, and not a multiple of anything.
  const std::string all = RandomBytes((std::size_t{17} << 20) + 4321);
  for (const std::size_t piece : {std::size_t{1} << 30, std::size_t{4} << 20, std::size_t{100'003}}) {
    const auto file = DirectFile::Create(folder_.File("f"));
    ASSERT_TRUE(file.ok()) << file.status();
    for (std::size_t at = 0; at < all.size(); at += piece) {
      ASSERT_TRUE((*file)->Write(std::string_view(all).substr(at, piece)).ok());
    }
    EXPECT_EQ((*file)->size(), static_cast<std::int64_t>(all.size()));
    const absl::Status status = (*file)->Finish();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Read(folder_.File("f")) == all) << piece;
  }
}

TEST_F(DirectFileTest, AFileThatWasThereLeavesNothing) {
  const std::string path = folder_.Write("f", std::string(100'000, 'x'));
  for (const std::string content : {"short", ""}) {
    const auto file = DirectFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(content).ok());
    ASSERT_TRUE((*file)->Finish().ok());
    EXPECT_EQ(Read(path), content);
  }
}

TEST_F(DirectFileTest, AFullDiskIsTold) {
  const std::string piece(1 << 20, 'x');
  const auto file = DirectFile::Create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  absl::Status status;
  for (int i = 0; i < 64 && status.ok(); ++i) status = (*file)->Write(piece);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("'/dev/full'"));
  EXPECT_TRUE(absl::IsResourceExhausted((*file)->Finish()));
}

TEST_F(DirectFileTest, APathThatCannotBeWrittenToIsNamed) {
  const auto file = DirectFile::Create(folder_.File("absent/f"));
  EXPECT_TRUE(absl::IsInvalidArgument(file.status()));
  EXPECT_THAT(std::string(file.status().message()), ::testing::HasSubstr("absent/f"));
}

TEST_F(DirectFileTest, MayBeGivenUp) {
  const auto file = DirectFile::Create(folder_.File("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Write(std::string(std::size_t{9} << 20, 'x')).ok());
}

}  // namespace
}  // namespace fulcrum::storage
