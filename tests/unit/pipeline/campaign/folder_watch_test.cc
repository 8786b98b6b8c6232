#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/campaign/pool/pool_growth.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FolderWatchTest : public ::testing::Test {
 protected:
  FolderWatchTest() { std::filesystem::create_directories(root_.File("in")); }

  /// Looks once; returns the names of the files that were to be appended.
  std::vector<std::string> Look() {
    asked_.clear();
    watch_.Look();
    return asked_;
  }
  void Write(const std::string& name, const std::string& text) { root_.Write("in/" + name, text); }

  testing::TemporaryDirectory root_;
  std::vector<std::string> asked_;
  std::vector<std::string> ids_;
  absl::StatusOr<Appended> answer_ = Appended();
  FolderWatch watch_{{"clouds", "in", root_.File("")}, [this](const AppendRequest& request) {
                       asked_.push_back(std::filesystem::path(request.file).filename());
                       ids_.push_back(request.request_id);
                       return answer_;
                     }};
};

TEST_F(FolderWatchTest, TakesAFileOnceItHasLookedTheSameTwice) {
  Write("b.csv", "id\n1\n");
  Write("a.csv", "id\n2\n");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a.csv", "b.csv"));
  EXPECT_THAT(Look(), IsEmpty()) << "once";
}

TEST_F(FolderWatchTest, WaitsForAFileThatGrows) {
  Write("a.csv", "id\n1\n");
  EXPECT_THAT(Look(), IsEmpty());
  Write("a.csv", "id\n1\n2\n");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
}

TEST_F(FolderWatchTest, LeavesAloneWhatIsBeingWritten) {
  for (const char* name : {".a.csv", "a.csv.tmp", "a.csv.part"}) Write(name, "id\n1\n");
  std::filesystem::create_directories(root_.File("in/folder"));
  Look();
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, NewContentUnderAnOldNameIsAnotherRequest) {
  Write("a.csv", "id\n1\n");
  Look();
  Look();
  Write("a.csv", "id\n1\n2\n");
  Look();
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
  ASSERT_EQ(ids_.size(), 2u);
  EXPECT_NE(ids_[0], ids_[1]);
}

TEST_F(FolderWatchTest, TheSameFileIsTheSameRequestAfterARestart) {
  Write("a.csv", "id\n1\n");
  FolderWatch again({"clouds", "in", root_.File("")}, [this](const AppendRequest& request) {
    ids_.push_back(request.request_id);
    return answer_;
  });
  for (int i = 0; i < 2; ++i) {
    Look();
    again.Look();
  }
  ASSERT_EQ(ids_.size(), 2u);
  EXPECT_EQ(ids_[0], ids_[1]);
}

TEST_F(FolderWatchTest, TriesAgainIfAnotherWasAppendingAndNotIfTheFileIsBad) {
  Write("a.csv", "id\n1\n");
  answer_ = absl::AbortedError("somebody else");
  Look();
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
  answer_ = absl::InvalidArgumentError("bad");
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
  EXPECT_THAT(Look(), IsEmpty());
  Write("a.csv", "id\n1\n2\n");
  Look();
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
}

TEST_F(FolderWatchTest, WithoutRoomAFileIsTriedAgainAtEverLongerIntervals) {
  Write("a.csv", "id\n1\n");
  answer_ = absl::ResourceExhaustedError("the disk is full");
  Look();
  std::vector<int> attempts;
  for (int look = 0; look < 700; ++look) {
    if (!Look().empty()) attempts.push_back(look);
  }
  // The first look that can take it, and then after 1, 2, 4 ... 128 looks in between.
  EXPECT_THAT(attempts, ElementsAre(0, 2, 5, 10, 19, 36, 69, 134, 263, 392, 521, 650));
  answer_ = Appended();
  int looks = 0;
  while (Look().empty()) ++looks;
  EXPECT_LE(looks, 128);
  for (int look = 0; look < 300; ++look) ASSERT_THAT(Look(), IsEmpty()) << "once";
}

TEST_F(FolderWatchTest, AChangedFileIsNotHeldBackByItsEarlierFailures) {
  Write("a.csv", "id\n1\n");
  answer_ = absl::ResourceExhaustedError("the disk is full");
  for (int look = 0; look < 100; ++look) Look();
  Write("a.csv", "id\n1\n2\n");
  Look();
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
}

TEST_F(FolderWatchTest, ALinkThatLeadsOutIsNotFollowed) {
  const testing::TemporaryDirectory outside;
  std::filesystem::create_symlink(outside.Write("secret.csv", "id\n1\n"), root_.File("in/a.csv"));
  Look();
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, AFolderThatComesBackIsLookedAtAgain) {
  std::filesystem::remove_all(root_.File("in"));
  EXPECT_THAT(Look(), IsEmpty());
  std::filesystem::create_directories(root_.File("in"));
  Write("a.csv", "id\n1\n");
  Look();
  EXPECT_THAT(Look(), ElementsAre("a.csv"));
}

TEST(ResolveWatchedFolder, IsInsideTheRootAndAFolder) {
  const testing::TemporaryDirectory root;
  root.Write("file.csv", "");
  EXPECT_TRUE(ResolveWatchedFolder({"clouds", ".", root.File("")}).ok());
  for (const char* folder : {"..", "/", "file.csv", "nowhere"}) {
    EXPECT_EQ(ResolveWatchedFolder({"clouds", folder, root.File("")}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << folder;
  }
}

}  // namespace
}  // namespace fulcrum::pipeline
