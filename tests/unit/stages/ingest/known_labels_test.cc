#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::ingest {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KnownLabelsTest : public ::testing::Test {
 protected:
  /// "id=label", in order.
  std::vector<std::string> Load(const std::string& name, const std::string& text) const {
    const auto labels = LoadKnownLabels(folder_.Write(name, text));
    EXPECT_TRUE(labels.ok()) << labels.status();
    std::vector<std::string> shown;
    if (!labels.ok()) return shown;
    for (const KnownLabel& known : *labels) shown.push_back(known.id + "=" + known.label);
    return shown;
  }

  std::string ErrorOf(const std::string& text) const {
    const auto labels = LoadKnownLabels(folder_.Write("bad.csv", text));
    EXPECT_EQ(labels.status().code(), absl::StatusCode::kDataLoss);
    return std::string(labels.status().message());
  }

  fulcrum::testing::TemporaryDirectory folder_;
};

TEST_F(KnownLabelsTest, LabelFile) {
  EXPECT_THAT(Load("a.csv", "label,other,id\npos,1,x\nneg,2,y\n"), ElementsAre("x=pos", "y=neg"));
}

TEST_F(KnownLabelsTest, RowsOfAPoolWithoutIdsAreNamedByTheirNumbers) {
  EXPECT_THAT(Load("p.csv", "label,f0\n1,0.5\n,0.25\n-1,0.75\n"), ElementsAre("0=1", "2=-1"));
  EXPECT_THAT(Load("p.libsvm", "+1 1:0.5\n-1 2:1\n"), ElementsAre("0=1", "1=-1"));
}

TEST_F(KnownLabelsTest, TheSameLabelTwiceIsOneAndTwoLabelsAreAnError) {
  EXPECT_THAT(Load("a.csv", "id,label\nx,1\nx,1\n"), ElementsAre("x=1"));
  EXPECT_THAT(ErrorOf("id,label\nx,1\ny,2\nx,2\n"), AllOf(HasSubstr("line 4"), HasSubstr("'x' is '2' here and '1'")));
}

TEST_F(KnownLabelsTest, MissingIdsAndColumnsAreNamed) {
  EXPECT_THAT(ErrorOf("id,label\n,1\n"), AllOf(HasSubstr("line 2"), HasSubstr("column 'id'")));
  EXPECT_THAT(ErrorOf("id,answer\nx,1\n"), HasSubstr("there must be one named 'label'"));
  EXPECT_EQ(LoadKnownLabels(folder_.File("none.csv")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace fulcrum::ingest
