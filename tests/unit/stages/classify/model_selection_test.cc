#include "stages/classify/model_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "stages/classify/svm_predictor.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/classify/labeled_clusters.h"

namespace fulcrum::classify {
namespace {

const ClassifierEntry* const kSvm = *FindClassifier("svm");
const ClassifierEntry* const kLogistic = *FindClassifier("logistic");

TEST(StratifiedFolds, SpreadEveryClassEvenlyAndAreDeterminedByTheSeed) {
  std::vector<ClassIndex> labels(37, 0);
  std::fill_n(labels.begin() + 20, 12, 3);
  std::fill_n(labels.begin() + 32, 5, 1);
  const std::vector<std::size_t> folds = StratifiedFolds(labels, 5, 7);
  for (const ClassIndex label : {0, 1, 3}) {
    std::vector<std::size_t> counts(5, 0);
    for (std::size_t i = 0; i < labels.size(); ++i) counts[folds[i]] += labels[i] == label ? 1 : 0;
    const auto [fewest, most] = std::ranges::minmax(counts);
    EXPECT_LE(most - fewest, 1u) << "class " << label;
  }
  EXPECT_EQ(folds, StratifiedFolds(labels, 5, 7));
  EXPECT_NE(folds, StratifiedFolds(labels, 5, 8));
}

/// Held-out accuracy with the trainer and predictor that rounds use.
double AccuracyByTraining(const LabeledClusters& clusters, const kernel::KernelFunction& kernel, double c,
                          std::size_t classes, std::uint64_t seed) {
  const std::vector<std::size_t> folds = StratifiedFolds(clusters.truth, 5, seed);
  std::size_t right = 0;
  for (std::size_t fold = 0; fold < 5; ++fold) {
    std::vector<ClassIndex> labels = clusters.truth;
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = folds[i] == fold ? kUnlabeled : labels[i];
    SvmTrainer trainer({.kernel = kernel, .c = c}, *clusters.features);
    const SvmModel model = *trainer.Train(labels, classes);
    const Matrix<double> decisions = DecisionValues(model, *clusters.features, *clusters.features);
    const std::vector<ClassIndex> predicted = VoteClasses(model, decisions.view());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      right += folds[i] == fold && predicted[i] == clusters.truth[i] ? 1 : 0;
    }
  }
  return static_cast<double>(right) / static_cast<double>(folds.size());
}

TEST(CrossValidate, HasTheHeldOutAccuracyOfTheTrainer) {
  const LabeledClusters clusters = MakeClusters(90, 4, 2, 5);
  const kernel::KernelFunction kernel{.sigma = 2};
  const Matrix<double> gram = testing::NaiveKernel(kernel, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial trials[] = {{kSvm, 0, 0.1}, {kSvm, 0, 1}, {kSvm, 0, 30}};
  const std::vector<TrialScore> scores = CrossValidate(grams, trials, clusters.truth, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(scores[i].accuracy, AccuracyByTraining(clusters, kernel, trials[i].c, 2, 3), 0.012) << trials[i].c;
    EXPECT_GT(scores[i].log_loss, 0);
  }
}

/// Two rings around the origin: no line separates them.
Matrix<double> Rings(std::size_t rows, std::vector<ClassIndex>& labels) {
  Matrix<double> points = testing::RandomMatrix(rows, 2, 11);
  for (std::size_t row = 0; row < rows; ++row) {
    labels.push_back(static_cast<ClassIndex>(row % 2));
    const double length = std::hypot(points(row, 0), points(row, 1)), radius = row % 2 == 0 ? 1 : 3;
    for (std::size_t col = 0; col < 2; ++col) points(row, col) *= radius / length;
  }
  return points;
}

TEST(CrossValidate, PrefersTheKernelThatSeparatesTheClasses) {
  std::vector<ClassIndex> labels;
  const Matrix<double> points = Rings(40, labels);
  const kernel::KernelFunction linear{.type = kernel::KernelType::kLinear}, rbf{.sigma = 2};
  const Matrix<double> grams[] = {testing::NaiveKernel(linear, points.view(), points.view()),
                                  testing::NaiveKernel(rbf, points.view(), points.view())};
  const ConstMatrixView views[] = {grams[0].view(), grams[1].view()};
  for (const ClassifierEntry& entry : Classifiers()) {
    const Trial trials[] = {{&entry, 0, 10}, {&entry, 1, 10}};
    const std::vector<TrialScore> scores = CrossValidate(views, trials, labels, 1);
    EXPECT_LT(scores[1].log_loss, 0.5 * scores[0].log_loss) << entry.name;
    EXPECT_EQ(scores[1].accuracy, 1) << entry.name;
    EXPECT_LT(scores[0].accuracy, 0.8) << entry.name;
  }
}

TEST(CrossValidate, GivesTheSameOnAnyNumberOfThreadsAndTakesClassesOfOneExample) {
  const LabeledClusters clusters = MakeClusters(60, 3, 5, 8);
  std::vector<ClassIndex> labels = clusters.truth;
  labels[0] = 9;  // the only one of its class
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial trials[] = {{kSvm, 0, 1}, {kSvm, 0, 10}, {kLogistic, 0, 100}};
  const auto run = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return CrossValidate(grams, trials, labels, 1);
  };
  const std::vector<TrialScore> one = run(1), two = run(2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one[i].log_loss, two[i].log_loss);
    EXPECT_GT(one[i].accuracy, 0.3) << "five classes, so 0.2 by chance";
  }
}

TEST(CrossValidate, EndsIfItIsAskedToStop) {
  const LabeledClusters clusters = MakeClusters(60, 3, 2, 8);
  const Matrix<double> gram = testing::NaiveKernel({}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial trials[] = {{kSvm, 0, 1}, {kLogistic, 0, 10}};
  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  EXPECT_THROW(CrossValidate(grams, trials, clusters.truth, 1), StoppedOnRequest);
}

}  // namespace
}  // namespace fulcrum::classify
