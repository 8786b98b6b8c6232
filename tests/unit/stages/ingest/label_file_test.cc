#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<RowLabel>> Load(const std::string& content) {
    return LoadLabelFile(folder_.Write("labels.csv", content), ids_);
  }
  std::string ErrorOf(const std::string& content) {
    const auto labels = Load(content);
    EXPECT_EQ(labels.status().code(), absl::StatusCode::kDataLoss) << labels.status();
    return std::string(labels.status().message());
  }
  testing::TemporaryDirectory folder_;
  RowIds ids_{std::vector<std::string>{"a", "b", "c", "d"}};
};

TEST_F(LabelFileTest, GivesRowsInOrderWhateverTheOrderOfTheFile) {
  const auto labels = Load("who,label,id\nx,pos,c\ny,neg,a\n");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, ElementsAre(FieldsAre(0, "neg"), FieldsAre(2, "pos")));
}

TEST_F(LabelFileTest, TheSameLabelTwiceIsFineAndCountsOnce) {
  const auto labels = Load("id,label\na,1\na,1\n");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, ElementsAre(FieldsAre(0, "1")));
}

TEST_F(LabelFileTest, DifferentLabelsForAnIdNameBothLines) {
  EXPECT_THAT(ErrorOf("id,label\na,1\nb,1\na,2\n"),
              HasSubstr("line 4, column 'label': 'a' is '2' here and '1' in line 2"));
}

TEST_F(LabelFileTest, UnknownIdsAreCountedAndTheFirstOnesShown) {
  const std::string error = ErrorOf("id,label\nv,1\na,1\nw,1\nx,1\ny,1\n");
  EXPECT_THAT(error, HasSubstr("4 of 5 ids are not in the pool"));
  EXPECT_THAT(error, HasSubstr("line 2, column 'id': 'v'"));
  EXPECT_THAT(error, HasSubstr("line 5, column 'id': 'x'"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("'y'")));
  EXPECT_THAT(error, HasSubstr("the pool's ids look like 'a', 'd'"));
}

TEST_F(LabelFileTest, APoolWithRowNumbersSaysSo) {
  ids_ = RowIds(std::size_t{10});
  EXPECT_THAT(ErrorOf("id,label\n10,1\n"), HasSubstr("row numbers 0 to 9"));
}

TEST_F(LabelFileTest, EmptyLabelsAndMissingColumns) {
  EXPECT_THAT(ErrorOf("id,label\na,\n"), HasSubstr("line 2, column 'label': the label of 'a' is missing"));
  EXPECT_THAT(ErrorOf("id,class\na,1\n"), HasSubstr("the columns are 'id', 'class'"));
  EXPECT_THAT(ErrorOf("row,class\na,1\n"), HasSubstr("one named 'id' and one named 'label'"));
}

TEST_F(LabelFileTest, AHeaderAloneHasNoLabels) {
  const auto labels = Load("id,label\n");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels, IsEmpty());
}

TEST(ClassNames, NumbersSortAsNumbersAndNamesAsNames) {
  EXPECT_THAT(ClassNames::FromLabels({"10", "-1", "2", "10"})->names(), ElementsAre("-1", "2", "10"));
  EXPECT_THAT(ClassNames::FromLabels({"10", "b", "2"})->names(), ElementsAre("10", "2", "b"));
}

TEST(ClassNames, FindsTheIndexOfEveryName) {
  const auto classes = ClassNames::FromLabels({"cat", "dog"});
  EXPECT_EQ(classes->Find("dog"), 1);
  EXPECT_EQ(classes->NameOf(0), "cat");
  EXPECT_EQ(classes->Find("cow"), kUnlabeled);
}

TEST(ClassNames, OneNumberWrittenTwoWaysIsAnError) {
  const auto classes = ClassNames::FromLabels({"1", "1.0", "2"});
  EXPECT_EQ(classes.status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace fulcrum::ingest
