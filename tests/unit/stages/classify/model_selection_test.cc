#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
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
  const LabeledClusters clusters = MakeClusters(210, 4, 2, 5);  // so many that they are divided into folds once
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

TEST(CrossValidate, AWeightIsAFactorOfThePenaltyAndOfTheLoss) {
  const LabeledClusters clusters = MakeClusters(60, 4, 3, 5);
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial plain[] = {{kSvm, 0, 6}, {kLogistic, 0, 6}}, third[] = {{kSvm, 0, 2}, {kLogistic, 0, 2}};
  const std::vector<double> three(60, 3.0);
  const std::vector<TrialScore> once = CrossValidate(grams, plain, clusters.truth, 3);
  const std::vector<TrialScore> weighted = CrossValidate(grams, third, clusters.truth, 3, three);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(once[i].log_loss, weighted[i].log_loss, 1e-6);
    EXPECT_NEAR(once[i].accuracy, weighted[i].accuracy, 1e-12);
  }
}

TEST(BalancingWeights, AreHalfPowersOfTwo) {
  const std::vector<ClassIndex> labels = {0, 0, 0, 0, 0, 0, 0, 0, 3, 3};  // 8 and 2, on average 5
  const std::vector<double> whole = BalancingWeights(labels, 1);
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_DOUBLE_EQ(whole[0], std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(whole[1], 1);
  EXPECT_DOUBLE_EQ(whole[3], std::exp2(1.5));
  EXPECT_EQ(BalancingWeights(labels, 0), std::vector<double>(4, 1.0));
}

TEST(CrossValidate, WeightsOfClassesMakeTheRareOneLikelier) {
  const LabeledClusters clusters = MakeClusters(120, 3, 2, 7);
  std::vector<ClassIndex> labels;
  RowList rows;
  for (std::size_t row = 0; row < clusters.truth.size(); ++row) {
    if (clusters.truth[row] == 1 && row % 6 != 1) continue;
    rows.push_back(static_cast<RowIndex>(row));
    labels.push_back(clusters.truth[row]);
  }
  const Matrix<double> all = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  Matrix<double> gram(rows.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) gram(i, j) = all(rows[i], rows[j]);
  }
  const ConstMatrixView grams[] = {gram.view()};
  const double heavy[] = {1, 1e6};
  const Trial trials[] = {{kLogistic, 0, 0.01}, {kLogistic, 0, 0.01, heavy}};
  const std::vector<TrialScore> scores = CrossValidate(grams, trials, labels, 3);
  EXPECT_NE(scores[0].log_loss, scores[1].log_loss);
  EXPECT_GT(scores[0].accuracy, scores[1].accuracy) << "nearly everything is taken for the rare class";
}

TEST(CrossValidate, DoubtfulLabelsHardlyCount) {
  LabeledClusters clusters = MakeClusters(120, 4, 2, 5);
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  std::vector<double> weights(120, 1.0);
  const std::vector<ClassIndex> truth = clusters.truth;
  // Of both classes, which take turns.
  for (std::size_t i = 0; i < 120; i += 3) {
    clusters.truth[i] = 1 - clusters.truth[i];
    weights[i] = 0.001;
  }
  for (const ClassifierEntry* const entry : {kSvm, kLogistic}) {
    const Trial trials[] = {{entry, 0, 10}};
    const double clean = CrossValidate(grams, trials, truth, 3)[0].accuracy;
    const double wrong = CrossValidate(grams, trials, clusters.truth, 3)[0].accuracy;
    const double weighted = CrossValidate(grams, trials, clusters.truth, 3, weights)[0].accuracy;
    EXPECT_LT(wrong, clean - 0.15) << entry->name;
    EXPECT_GT(weighted, wrong + 0.05) << entry->name;
    // Held-out probabilities of the right class, of examples whose labels are wrong.
    std::vector<std::uint32_t> positions(120);
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<std::size_t> classes(clusters.truth.begin(), clusters.truth.end());
    const std::vector<double> costs(2, 10.0);
    const Matrix<double> believed =
        HeldOutProbabilities(*entry, {gram.view(), positions, classes, 2, costs, weights}, 3);
    const Matrix<double> misled = HeldOutProbabilities(*entry, {gram.view(), positions, classes, 2, costs}, 3);
    double with = 0, without = 0;
    for (std::size_t i = 0; i < 120; ++i) {
      with += believed(i, static_cast<std::size_t>(truth[i]));
      without += misled(i, static_cast<std::size_t>(truth[i]));
    }
    EXPECT_GT(with, without + 6) << entry->name;
  }
}

TEST(CrossValidate, DividesFewLabelsSeveralTimes) {
  const LabeledClusters clusters = MakeClusters(30, 4, 2, 5);
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial trials[] = {{kLogistic, 0, 3}};
  // A single division of 30 labels has an accuracy of thirtieths; the mean of four does not, for one of these seeds.
  bool finer = false;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double right = 30 * CrossValidate(grams, trials, clusters.truth, seed)[0].accuracy;
    EXPECT_NEAR(4 * right, std::round(4 * right), 1e-9);
    finer = finer || std::abs(right - std::round(right)) > 0.1;
  }
  EXPECT_TRUE(finer);
}

TEST(ShrinkToParts, PrefersASettingWhosePartsAreGoodElsewhere) {
  // Three kernels with two penalties each; the smallest loss is an exception among the settings of its kernel.
  const std::vector<SettingParts> parts = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 2, 0}, {0, 2, 1}};
  const std::vector<double> losses = {0.50, 0.51, 0.49, 0.90, 0.80, 0.81};
  const std::vector<double> shrunk = ShrinkToParts(losses, parts, 20, 10);
  EXPECT_EQ(std::ranges::min_element(shrunk) - shrunk.begin(), 0);
  // Half of the way to the sum of the effects of the parts.
  const double mean = 4.01 / 6, penalty = 1.79 / 3 - mean, kernel = 1.01 / 2 - mean;
  EXPECT_NEAR(shrunk[0], 0.5 * losses[0] + 0.5 * (mean + kernel + penalty), 1e-12);
  // Losses of many labels are not chance.
  const std::vector<double> many = ShrinkToParts(losses, parts, 10'000, 10);
  EXPECT_EQ(std::ranges::min_element(many) - many.begin(), 2);
}

TEST(ShrinkToParts, AHopelessCombinationDoesNotSpoilThePartsOfOthers) {
  // A linear kernel (0) is the better one except on features that it cannot use (2), where it knows less than nothing.
  const std::vector<SettingParts> parts = {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {2, 1, 0}};
  const double chance = std::log(2.0);
  const auto best = [&](double hopeless, double largest) {
    const std::vector<double> losses = {0.40, 0.45, 0.41, 0.46, hopeless, 0.60};
    const std::vector<double> shrunk = ShrinkToParts(losses, parts, 20, largest);
    return std::ranges::min_element(shrunk) - shrunk.begin();
  };
  EXPECT_EQ(best(3.0, 10), 1) << "the linear kernel looks bad on all features";
  EXPECT_EQ(best(3.0, chance), 0);
  EXPECT_EQ(best(chance, 10), best(3.0, chance)) << "how hopeless it is does not matter";
}

TEST(ChanceLoss, IsThatOfPredictingTheSharesOfTheClasses) {
  EXPECT_NEAR(ChanceLoss(std::vector<ClassIndex>{0, 1, 1, 0}), std::log(2.0), 1e-12);
  EXPECT_NEAR(ChanceLoss(std::vector<ClassIndex>{4, 2, 2, 2}), -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)), 1e-12);
}

/// Held-out probabilities of a classifier that is as sure as it should be, next to classes of a single example each.
TEST(FitTemperature, IsNotFlattenedByClassesOfASingleExample) {
  LabeledClusters clusters = MakeClusters(60, 3, 2, 8);
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  std::vector<std::uint32_t> positions(60);
  std::iota(positions.begin(), positions.end(), 0u);
  std::vector<std::size_t> classes(clusters.truth.begin(), clusters.truth.end());
  const auto temperature = [&](std::size_t rows, std::size_t class_count) {
    const std::vector<double> costs(class_count, 10);
    return FitTemperature(*kLogistic, {gram.view(), std::span(positions).first(rows), classes, class_count, costs}, 3);
  };
  const double without = temperature(57, 2);
  for (std::size_t i = 0; i < 3; ++i) classes[57 + i] = 2 + i;
  EXPECT_GE(temperature(60, 5), without / 4) << "other folds may move it, but not by three steps";
}

TEST(CrossValidate, LeavesOutTheLossOfExamplesWhoseClassWasNotSeen) {
  const LabeledClusters clusters = MakeClusters(60, 4, 2, 5);
  const Matrix<double> gram = testing::NaiveKernel({.sigma = 2}, clusters.values(), clusters.values());
  const ConstMatrixView grams[] = {gram.view()};
  const Trial trials[] = {{kLogistic, 0, 3}};
  std::vector<ClassIndex> labels = clusters.truth;
  const TrialScore before = CrossValidate(grams, trials, labels, 3)[0];
  labels[0] = 7;
  labels[1] = 8;
  labels[2] = 9;
  const TrialScore after = CrossValidate(grams, trials, labels, 3)[0];
  // At their floor of 1e-4 they alone would add 3 / 60 * 9.2.
  EXPECT_LT(after.log_loss, before.log_loss + 0.2);
  EXPECT_LE(after.accuracy, 57.0 / 60) << "they count as wrong";
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

TEST(CrossValidate, FeaturesLearnedFromLabelsHaveAKernelPerFold) {
  std::vector<ClassIndex> labels;
  const Matrix<double> points = Rings(60, labels);
  const Matrix<double> good = testing::NaiveKernel({.sigma = 2}, points.view(), points.view());
  const Matrix<double> bad = testing::NaiveKernel({.sigma = 1000}, points.view(), points.view());
  const std::vector<std::vector<std::size_t>> folds = LabelFolds(labels, 3);
  ASSERT_EQ(folds.size(), 3u) << "so that 200 examples are predicted, about";
  EXPECT_EQ(folds[0], StratifiedFolds(labels, kLabelFolds, 3));
  std::vector<ConstMatrixView> grams = {good.view()};
  grams.resize(1 + 3 * kLabelFolds, good.view());
  const Trial trials[] = {{kLogistic, 0, 3}, {.classifier = kLogistic, .gram = 1, .c = 3, .gram_per_fold = true}};
  const std::vector<TrialScore> same = CrossValidate(grams, trials, labels, 3);
  EXPECT_EQ(same[0].log_loss, same[1].log_loss);
  EXPECT_GT(same[0].accuracy, 0.9);
  // The examples of one fold of the second division are predicted by a kernel that cannot tell the classes.
  grams[1 + kLabelFolds + 2] = bad.view();
  const double share = static_cast<double>(std::ranges::count(folds[1], 2u)) / 180;
  const double worse = CrossValidate(grams, trials, labels, 3)[1].accuracy;
  EXPECT_LT(worse, same[1].accuracy);
  EXPECT_GE(worse, same[1].accuracy - share);
}

/// A setting is chosen by its scores, so these must be those of the solution and not of where the solver stops.
TEST(CrossValidate, ScoresOfLogisticAreThoseOfTheSolution) {
  for (const std::size_t classes : {std::size_t{2}, std::size_t{4}}) {
    const LabeledClusters clusters = MakeClusters(90, 4, classes, 6);
    const RowList seen = [] {
      RowList rows(70);
      std::iota(rows.begin(), rows.end(), RowIndex{0});
      return rows;
    }();
    std::vector<std::uint32_t> positions(seen.begin(), seen.end()), held_out(20);
    std::iota(held_out.begin(), held_out.end(), 70u);
    const std::vector<std::size_t> places(clusters.truth.begin(), clusters.truth.end());
    const std::vector<double> costs(classes, 1.0);
    for (const kernel::KernelFunction& kernel :
         {kernel::KernelFunction{.sigma = 3}, kernel::KernelFunction{.type = kernel::KernelType::kLinear}}) {
      const Matrix<double> gram = testing::NaiveKernel(kernel, clusters.values(), clusters.values());
      const double penalties[] = {3, 30, 300};
      const std::vector<Matrix<double>> scores =
          ScoreWithLogistic({gram.view(), positions, places, classes, costs}, held_out, penalties);
      for (std::size_t i = 0; i < 3; ++i) {
        const auto trained = MakeClassifier(
            {.classifier = "logistic", .kernel = kernel, .c = penalties[i], .tolerance = 1e-9}, *clusters.features);
        const SvmModel model = *trained->Train(clusters.LabelsOfFirst(70), classes);
        const Matrix<double> decisions = DecisionValues(model, *clusters.features, *clusters.features);
        for (std::size_t t = 0; t < 20; ++t) {
          // The decision value of the pair of classes 0 and 1.
          EXPECT_NEAR(scores[i](t, 0) - scores[i](t, 1), decisions(70 + t, 0), 0.05) << classes << " " << penalties[i];
        }
      }
    }
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
