// An example of weight 2 is the same as the example twice, for every classifier.
#include <gtest/gtest.h>

#include <cmath>

#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/core/random.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kRows = 40, kDims = 3;

Matrix<double> Rows(std::size_t copies_of_first) {
  Random random(5);
  Matrix<double> rows(kRows + copies_of_first, kDims);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t k = 0; k < kDims; ++k) rows(i, k) = random.Normal() + (i % 2 == 0 ? 0.7 : -0.7);
  }
  for (std::size_t i = 0; i < copies_of_first; ++i) std::ranges::copy(rows.row(i), rows.row(kRows + i).begin());
  return rows;
}

std::vector<ClassIndex> Labels(std::size_t copies_of_first) {
  std::vector<ClassIndex> labels;
  for (std::size_t i = 0; i < kRows; ++i) labels.push_back(static_cast<ClassIndex>((i + i / 7) % 2));
  for (std::size_t i = 0; i < copies_of_first; ++i) labels.push_back(labels[i]);
  return labels;
}

std::vector<double> Decisions(const SvmModel& model, const kernel::Features& features) {
  RowList rows(kRows);
  for (std::size_t i = 0; i < kRows; ++i) rows[i] = static_cast<RowIndex>(i);
  Matrix<double> values(kRows, model.pairs.size());
  DecisionValues(model, features, features, rows, values.view());
  std::vector<double> decisions;
  for (std::size_t i = 0; i < kRows; ++i) decisions.push_back(values(i, 0));
  return decisions;
}

class ExampleWeightsTest : public ::testing::TestWithParam<const char*> {
 protected:
  SvmParameters Parameters() const {
    SvmParameters parameters;
    parameters.classifier = GetParam();
    parameters.c = 0.7;
    parameters.tolerance = 1e-9;
    return parameters;
  }
};

TEST_P(ExampleWeightsTest, WeightTwoIsTwice) {
  constexpr std::size_t kTwice = 12;
  const kernel::DenseFeatures plain(Rows(0)), doubled(Rows(kTwice));
  std::vector<double> weights(kRows, 1.0);
  std::fill_n(weights.begin(), kTwice, 2.0);
  const auto weighted = MakeClassifier(Parameters(), plain);
  weighted->UseWeights(weights);
  const auto twice = MakeClassifier(Parameters(), doubled);
  const auto first = weighted->Train(Labels(0), 2), second = twice->Train(Labels(kTwice), 2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  const std::vector<double> a = Decisions(*first, plain), b = Decisions(*second, doubled);
  for (std::size_t i = 0; i < kRows; ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

TEST_P(ExampleWeightsTest, WeightsMayChangeBetweenTrainings) {
  const kernel::DenseFeatures features(Rows(0));
  Random random(7);
  std::vector<double> weights;
  for (std::size_t i = 0; i < kRows; ++i) weights.push_back(0.05 + random.Uniform());
  const auto warm = MakeClassifier(Parameters(), features), cold = MakeClassifier(Parameters(), features);
  ASSERT_TRUE(warm->Train(Labels(0), 2).ok());
  warm->UseWeights(weights);
  cold->UseWeights(weights);
  const auto first = warm->Train(Labels(0), 2), second = cold->Train(Labels(0), 2);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(warm->report().warm);
  const std::vector<double> a = Decisions(*first, features), b = Decisions(*second, features);
  for (std::size_t i = 0; i < kRows; ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(Classifiers, ExampleWeightsTest, ::testing::Values("svm", "logistic"));

}  // namespace
}  // namespace fulcrum::classify
