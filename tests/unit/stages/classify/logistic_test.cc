// Kernel logistic regression against plain gradient descent on explicit features, and its properties.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/classify/classifier.h"
#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "tests/support/matrices.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

using ::testing::HasSubstr;

const kernel::KernelFunction kLinear{.type = kernel::KernelType::kLinear};

SvmParameters Logistic(const kernel::KernelFunction& kernel, double c, std::vector<double> weights = {}) {
  return {.classifier = "logistic", .kernel = kernel, .c = c, .class_weights = std::move(weights), .tolerance = 1e-8};
}

void SoftmaxInPlace(std::span<double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
}

/// Scores of all rows after many steps of gradient descent on c * cross entropy + |W|^2 / 2; the last weight of a class
/// is its intercept, which costs nothing.
Matrix<double> ScoresByDescent(ConstMatrixView features, std::span<const ClassIndex> labels, std::size_t classes,
                               double c) {
  const std::size_t dims = features.cols();
  Matrix<double> weights = Matrix<double>::Zero(classes, dims + 1), scores(features.rows(), classes);
  const auto score = [&] {
    for (std::size_t i = 0; i < features.rows(); ++i) {
      for (std::size_t k = 0; k < classes; ++k) {
        scores(i, k) = std::inner_product(features.row(i).begin(), features.row(i).end(), weights.row(k).begin(),
                                          weights(k, dims));
      }
    }
  };
  for (int step = 0; step < 40'000; ++step) {
    score();
    Matrix<double> gradient = weights.Clone();
    for (std::size_t k = 0; k < classes; ++k) gradient(k, dims) = 0;
    for (std::size_t i = 0; i < features.rows(); ++i) {
      if (labels[i] == kUnlabeled) continue;
      SoftmaxInPlace(scores.row(i));
      for (std::size_t k = 0; k < classes; ++k) {
        const double residual = c * (scores(i, k) - (labels[i] == static_cast<ClassIndex>(k) ? 1 : 0));
        for (std::size_t d = 0; d < dims; ++d) gradient(k, d) += residual * features(i, d);
        gradient(k, dims) += residual;
      }
    }
    for (std::size_t k = 0; k < classes; ++k) {
      for (std::size_t d = 0; d <= dims; ++d) weights(k, d) -= 0.002 * gradient(k, d);
    }
  }
  score();
  return scores;
}

Matrix<double> DecisionsOf(const SvmModel& model, const kernel::Features& features) {
  return DecisionValues(model, features, features);
}

TEST(LogisticTest, IsThatOfGradientDescentAndItsProbabilitiesAreTheSoftmax) {
  const LabeledClusters clusters = MakeClusters(40, 3, 3, 5);
  const std::vector<ClassIndex> labels = clusters.LabelsOfFirst(30);
  const auto classifier = MakeClassifier(Logistic(kLinear, 0.7), *clusters.features);
  const SvmModel model = *classifier->Train(labels, 3);
  Matrix<double> scores = ScoresByDescent(clusters.values(), labels, 3, 0.7);
  const Matrix<double> decisions = DecisionsOf(model, *clusters.features);
  const Matrix<double> probabilities = *Probabilities(model, decisions.view());
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(decisions(i, 0), scores(i, 0) - scores(i, 1), 1e-5);
    EXPECT_NEAR(decisions(i, 2), scores(i, 1) - scores(i, 2), 1e-5);
    SoftmaxInPlace(scores.row(i));
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(probabilities(i, k), scores(i, k), 1e-5);
  }
  EXPECT_TRUE(classifier->report().converged);
  EXPECT_EQ(classifier->report().support_vectors, 30u);
}

TEST(LogisticTest, WithTwoClassesItIsTheUsualBinaryModel) {
  const LabeledClusters clusters = MakeClusters(30, 2, 2, 6);
  const SvmModel model = *MakeClassifier(Logistic(kLinear, 1.4), *clusters.features)->Train(clusters.truth, 2);
  // |W|^2 / 2 of one function w is |w/2|^2 of two, so that half the penalty gives the same function.
  const Matrix<double> scores = ScoresByDescent(clusters.values(), clusters.truth, 2, 0.7);
  const Matrix<double> decisions = DecisionsOf(model, *clusters.features);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_NEAR(decisions(i, 0), scores(i, 0) - scores(i, 1), 1e-5);
}

TEST(LogisticTest, SparseFeaturesGiveTheSameModel) {
  const LabeledClusters clusters = MakeClusters(60, 4, 3, 7);
  SparseMatrix sparse;
  sparse.cols = 4;
  for (std::size_t row = 0; row < 60; ++row) {
    for (std::int32_t col = 0; col < 4; ++col) {
      sparse.columns.push_back(col);
      sparse.values.push_back(clusters.values()(row, static_cast<std::size_t>(col)));
    }
    sparse.offsets.push_back(sparse.values.size());
  }
  const kernel::SparseFeatures features(std::move(sparse));
  const SvmParameters parameters = Logistic({.sigma = 2}, 10);
  const SvmModel dense = *MakeClassifier(parameters, *clusters.features)->Train(clusters.LabelsOfFirst(40), 3);
  const SvmModel same = *MakeClassifier(parameters, features)->Train(clusters.LabelsOfFirst(40), 3);
  EXPECT_LT(LargestDifference(DecisionsOf(dense, *clusters.features).view(), DecisionsOf(same, features).view()), 1e-6);
}

TEST(LogisticTest, AClassWeightOfTwoIsEveryExampleOfTheClassTwice) {
  const LabeledClusters clusters = MakeClusters(24, 3, 2, 8);
  Matrix<double> twice(48, 3);
  std::vector<ClassIndex> labels(48, kUnlabeled);
  for (std::size_t row = 0; row < 48; ++row) {
    std::ranges::copy(clusters.values().row(row % 24), twice.row(row).begin());
    if (row < 24 || clusters.truth[row % 24] == 1) labels[row] = clusters.truth[row % 24];
  }
  const kernel::DenseFeatures features(std::move(twice));
  const SvmModel weighted =
      *MakeClassifier(Logistic({.sigma = 1.5}, 5, {1, 2}), *clusters.features)->Train(clusters.truth, 2);
  const SvmModel doubled = *MakeClassifier(Logistic({.sigma = 1.5}, 5), features)->Train(labels, 2);
  const Matrix<double> ours = DecisionsOf(weighted, *clusters.features), theirs = DecisionsOf(doubled, features);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(ours(i, 0), theirs(i, 0), 1e-6);
}

TEST(LogisticTest, AWarmTrainingReachesTheColdModelWithLessWork) {
  const LabeledClusters clusters = MakeClusters(200, 4, 4, 9);
  const SvmParameters parameters = Logistic({.sigma = 3}, 300);
  const auto warm = MakeClassifier(parameters, *clusters.features),
             cold = MakeClassifier(parameters, *clusters.features);
  ASSERT_TRUE(warm->Train(clusters.LabelsOfFirst(150), 4).ok());
  std::vector<ClassIndex> labels = clusters.LabelsOfFirst(155);
  labels[3] = kUnlabeled;           // withdrawn
  labels[8] = (labels[8] + 1) % 4;  // changed
  const Matrix<double> ours = DecisionsOf(*warm->Train(labels, 4), *clusters.features);
  const Matrix<double> theirs = DecisionsOf(*cold->Train(labels, 4), *clusters.features);
  EXPECT_LT(LargestDifference(ours.view(), theirs.view()), 1e-6);
  EXPECT_TRUE(warm->report().warm);
  EXPECT_FALSE(cold->report().warm);
  // With labels that are only added, as in most rounds, the start is close.
  labels = clusters.LabelsOfFirst(157);
  cold->Reset();
  ASSERT_TRUE(warm->Train(clusters.LabelsOfFirst(155), 4).ok());
  ASSERT_TRUE(warm->Train(labels, 4).ok());
  ASSERT_TRUE(cold->Train(labels, 4).ok());
  EXPECT_LT(warm->report().iterations, cold->report().iterations);
}

TEST(LogisticTest, CalibrationKeepsTheClassesAndBelongsToTheLastTraining) {
  const LabeledClusters clusters = MakeClusters(120, 3, 3, 10);
  const auto classifier = MakeClassifier(Logistic({.sigma = 0.5}, 1e4), *clusters.features);
  SvmModel model = *classifier->Train(clusters.LabelsOfFirst(60), 3);
  const Matrix<double> decisions = DecisionsOf(model, *clusters.features);
  const Matrix<double> before = *Probabilities(model, decisions.view());
  ASSERT_TRUE(classifier->FitProbabilities(model).ok());
  const Matrix<double> after = *Probabilities(model, decisions.view());
  const std::vector<ClassIndex> classes = VoteClasses(model, decisions.view());
  double loss_before = 0, loss_after = 0;
  for (std::size_t i = 60; i < 120; ++i) {
    EXPECT_EQ(std::ranges::max_element(after.row(i)) - after.row(i).begin(), classes[i]);
    loss_before -= std::log(before(i, static_cast<std::size_t>(clusters.truth[i])));
    loss_after -= std::log(after(i, static_cast<std::size_t>(clusters.truth[i])));
  }
  EXPECT_LT(loss_after, loss_before) << "a penalty this large is far too confident";
  ASSERT_TRUE(classifier->Train(clusters.LabelsOfFirst(70), 3).ok());
  EXPECT_EQ(classifier->FitProbabilities(model).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LogisticTest, FilesAndLibsvmHaveTheSameModel) {
  const LabeledClusters clusters = MakeClusters(90, 3, 3, 11);
  const SvmModel model =
      *MakeClassifier(Logistic({.sigma = 2}, 30), *clusters.features)->Train(clusters.LabelsOfFirst(60), 3);
  const Matrix<double> decisions = DecisionsOf(model, *clusters.features);
  const Matrix<double> probabilities = *Probabilities(model, decisions.view());
  const SavedSvm saved = *ParseSvm(*SerializeSvm(model, *clusters.features));
  EXPECT_LT(
      LargestDifference(DecisionValues(saved.model, *saved.features, *clusters.features).view(), decisions.view()),
      1e-9);
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(ExportLibsvmModel(model, *clusters.features, directory.File("model")).ok());
  const LibsvmOracle loaded = LibsvmOracle::Load(directory.File("model"));
  for (std::size_t row = 60; row < 90; ++row) {
    const auto x = clusters.values().row(row);
    for (std::size_t p = 0; p < 3; ++p) EXPECT_NEAR(loaded.Decisions(x)[p], decisions(row, p), 1e-8);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(loaded.Probabilities(x)[k], probabilities(row, k), 0.01);
  }
}

TEST(ClassifierRegistryTest, UnknownNamesAreRefusedWithThoseThereAre) {
  const LabeledClusters clusters = MakeClusters(20, 2, 2, 12);
  const absl::Status unknown =
      MakeClassifier({.classifier = "forest"}, *clusters.features)->Train(clusters.truth, 2).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("svm, logistic"));
  for (const ClassifierEntry& entry : Classifiers()) {
    const auto classifier = MakeClassifier({.classifier = std::string(entry.name)}, *clusters.features);
    EXPECT_EQ(classifier->Train(clusters.LabelsOfFirst(1), 2).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(classifier->Train(clusters.LabelsOfFirst(2), 2).ok()) << entry.name;
  }
}

}  // namespace
}  // namespace fulcrum::classify
