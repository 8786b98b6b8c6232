#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/classify/labeled_clusters.h"

namespace fulcrum::classify {
namespace {

using ::testing::HasSubstr;

class SvmIoTest : public ::testing::Test {
 protected:
  SvmIoTest() {
    SvmTrainer trainer(
        {.kernel = {.type = kernel::KernelType::kPoly, .offset = 0.5, .degree = 2, .normalize = true}, .c = 2},
        *clusters_.features);
    model_ = *trainer.Train(clusters_.LabelsOfFirst(90), 3);
    EXPECT_TRUE(trainer.FitProbabilities(model_).ok());
  }

  LabeledClusters clusters_ = MakeClusters(120, 5, 3, 61);
  SvmModel model_;
  testing::TemporaryDirectory directory_;
};

TEST_F(SvmIoTest, ALoadedModelPredictsTheSameWithoutThePool) {
  const std::string path = directory_.File("model");
  ASSERT_TRUE(SaveSvm(model_, *clusters_.features, path).ok());
  const auto saved = LoadSvm(path);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->pool_rows, model_.support_rows);
  EXPECT_EQ(saved->model.class_count, 3u);
  EXPECT_EQ(saved->model.kernel, model_.kernel);
  const Matrix<double> before = DecisionValues(model_, *clusters_.features, *clusters_.features);
  const Matrix<double> after = DecisionValues(saved->model, *saved->features, *clusters_.features);
  EXPECT_EQ(LargestDifference(before.view(), after.view()), 0);
  const Matrix<double> p_before = *Probabilities(model_, before.view());
  const Matrix<double> p_after = *Probabilities(saved->model, after.view());
  EXPECT_EQ(LargestDifference(p_before.view(), p_after.view()), 0);
  for (std::size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(saved->model.pairs[p].objective, model_.pairs[p].objective);
    EXPECT_EQ(saved->model.pairs[p].support_count, model_.pairs[p].support_count);
  }
}

TEST_F(SvmIoTest, EveryTruncationIsFound) {
  const std::string bytes = *SerializeSvm(model_, *clusters_.features);
  for (std::size_t length = 0; length < bytes.size(); length += length < 300 ? 1 : 101) {
    EXPECT_FALSE(ParseSvm(std::string_view(bytes).substr(0, length)).ok()) << length;
  }
  EXPECT_TRUE(ParseSvm(bytes).ok());
  EXPECT_FALSE(ParseSvm(bytes + "x").ok());
}

TEST_F(SvmIoTest, EveryFlippedByteIsFound) {
  std::string bytes = *SerializeSvm(model_, *clusters_.features);
  for (std::size_t at = 0; at < bytes.size(); at += at < 300 ? 1 : 101) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    EXPECT_FALSE(ParseSvm(bytes).ok()) << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  }
}

TEST_F(SvmIoTest, MessagesNameTheFileAndTheProblem) {
  const std::string bytes = *SerializeSvm(model_, *clusters_.features);
  const std::string cut = directory_.Write("cut", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(LoadSvm(cut).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(LoadSvm(cut).status().message()), HasSubstr(cut + ": the SVM model is damaged"));
  const std::string other = directory_.Write("other", "id,label\n1,2\n");
  EXPECT_THAT(std::string(LoadSvm(other).status().message()), HasSubstr("not an SVM model of Fulcrum"));
  std::string newer = bytes;
  newer[10] = 9;
  EXPECT_THAT(std::string(ParseSvm(newer).status().message()), HasSubstr("format version 9"));
  EXPECT_EQ(LoadSvm(directory_.File("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(SaveSvm(model_, *clusters_.features, directory_.File("no/such/model")).message()),
              HasSubstr("cannot write to"));
}

}  // namespace
}  // namespace fulcrum::classify
