#include "stages/classify/svm_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/classify/svm_model.h"
#include "tbb/global_control.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTight = 1e-8;

struct Setting {
  std::string name;
  SvmParameters parameters;
  std::size_t classes;
};

class AgainstLibsvmTest : public ::testing::TestWithParam<Setting> {};

/// LIBSVM's multipliers put into a model of ours, so that both objectives are counted by the same naive code.
double OracleObjective(const LibsvmOracle& oracle, const SvmModel& ours, ConstMatrixView features) {
  SvmModel model;
  model.kernel = ours.kernel;
  const std::vector<double> multipliers = oracle.SignedMultipliers();
  for (std::size_t row = 0; row < multipliers.size(); ++row) {
    if (multipliers[row] != 0) model.support_rows.push_back(static_cast<RowIndex>(row));
  }
  model.coefficients = Matrix<double>(model.support_rows.size(), 1);
  for (std::size_t s = 0; s < model.support_rows.size(); ++s)
    model.coefficients(s, 0) = multipliers[model.support_rows[s]];
  return NaiveObjective(model, 0, features);
}

TEST_P(AgainstLibsvmTest, SameObjectiveDecisionsAndClasses) {
  const Setting& setting = GetParam();
  const LabeledClusters clusters = MakeClusters(260, 5, setting.classes, 11);
  const std::vector<ClassIndex> labels = clusters.LabelsOfFirst(180);
  SvmTrainer trainer(setting.parameters, *clusters.features);
  const auto model = trainer.Train(labels, setting.classes);
  ASSERT_TRUE(model.ok()) << model.status();
  const LibsvmOracle oracle = LibsvmOracle::Train(setting.parameters, clusters.values(), labels);

  for (std::size_t p = 0; p < model->pairs.size(); ++p) {
    const double naive = NaiveObjective(*model, p, clusters.values());
    EXPECT_NEAR(model->pairs[p].objective, naive, 1e-7 * std::abs(naive));
  }
  if (setting.classes == 2) {
    const double reference = OracleObjective(oracle, *model, clusters.values());
    EXPECT_NEAR(model->objective(), reference, 1e-6 * std::abs(reference));
  }
  const Matrix<double> decisions = DecisionValues(*model, *clusters.features, *clusters.features);
  // LIBSVM keeps Q in single precision, which its multipliers show in proportion to C.
  const double tolerance = 1e-5 * std::max(1.0, setting.parameters.c / 10);
  const std::vector<ClassIndex> predicted = VoteClasses(*model, decisions.view());
  for (std::size_t row = 0; row < clusters.truth.size(); ++row) {
    const std::vector<double> reference = oracle.Decisions(clusters.values().row(row));
    ASSERT_EQ(reference.size(), model->pairs.size());
    bool clear = true;
    for (std::size_t p = 0; p < reference.size(); ++p) {
      EXPECT_NEAR(decisions(row, p), reference[p], tolerance * std::max(1.0, std::abs(reference[p]))) << row;
      clear = clear && std::abs(reference[p]) > 1e-4;
    }
    if (!clear) continue;
    EXPECT_EQ(predicted[row], oracle.Predict(clusters.values().row(row))) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, AgainstLibsvmTest,
    ::testing::Values(Setting{"rbf", {.tolerance = kTight}, 2},
                      Setting{"rbf_large_c", {.c = 100, .tolerance = kTight}, 2},
                      Setting{"linear", {.kernel = {.type = kernel::KernelType::kLinear}, .tolerance = kTight}, 2},
                      Setting{
                          "poly", {.kernel = {.type = kernel::KernelType::kPoly, .degree = 3}, .tolerance = kTight}, 2},
                      Setting{"weighted", {.class_weights = {0.3, 4}, .tolerance = kTight}, 2},
                      Setting{"no_shrinking", {.tolerance = kTight, .shrinking = false}, 2},
                      Setting{"three_classes", {.tolerance = kTight}, 3},
                      Setting{"five_classes_weighted", {.class_weights = {1, 2, 0.5, 1, 3}, .tolerance = kTight}, 5}),
    [](const auto& setting) { return setting.param.name; });

TEST(SvmTrainerTest, ClassesWithoutLabelsAreInNoPair) {
  const LabeledClusters clusters = MakeClusters(90, 4, 3, 12);
  std::vector<ClassIndex> labels = clusters.truth;
  for (ClassIndex& label : labels) label = label == 1 ? kUnlabeled : label;
  SvmTrainer trainer({}, *clusters.features);
  const SvmModel model = *trainer.Train(labels, 4);
  ASSERT_EQ(model.pairs.size(), 1u);
  EXPECT_EQ(model.pairs[0].first, 0);
  EXPECT_EQ(model.pairs[0].second, 2);
  EXPECT_THAT(model.classes_present(), ElementsAre(0, 2));
  for (RowIndex row : model.support_rows) EXPECT_NE(labels[row], kUnlabeled);
}

TEST(SvmTrainerTest, TwoLabelsAreEnough) {
  const LabeledClusters clusters = MakeClusters(10, 4, 2, 13);
  SvmTrainer trainer({}, *clusters.features);
  const SvmModel model = *trainer.Train(clusters.LabelsOfFirst(2), 2);
  EXPECT_THAT(model.support_rows, ElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(model.coefficients(0, 0), -model.coefficients(1, 0));
}

TEST(SvmTrainerTest, RefusesWhatItCannotTrainOn) {
  const LabeledClusters clusters = MakeClusters(20, 4, 2, 14);
  SvmTrainer trainer({}, *clusters.features);
  const auto one_class = trainer.Train(clusters.LabelsOfFirst(1), 2);
  EXPECT_EQ(one_class.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(one_class.status().message()), HasSubstr("at least two classes"));
  const auto too_short = trainer.Train(std::vector<ClassIndex>(19, 0), 2);
  EXPECT_THAT(std::string(too_short.status().message()), HasSubstr("19 labels for a pool of 20 rows"));
  std::vector<ClassIndex> labels = clusters.truth;
  labels[3] = 7;
  EXPECT_THAT(std::string(trainer.Train(labels, 2).status().message()), HasSubstr("row 3 has class 7"));
  SvmTrainer bad({.c = -1}, *clusters.features);
  EXPECT_EQ(bad.Train(clusters.truth, 2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SvmTrainerTest, ProbabilitiesBelongToTheLastTraining) {
  const LabeledClusters clusters = MakeClusters(60, 4, 2, 15);
  SvmTrainer trainer({}, *clusters.features);
  SvmModel first = *trainer.Train(clusters.LabelsOfFirst(40), 2);
  ASSERT_TRUE(trainer.Train(clusters.LabelsOfFirst(60), 2).ok());
  EXPECT_EQ(trainer.FitProbabilities(first).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SvmTrainerTest, AnyNumberOfThreadsGivesTheSameModel) {
  const LabeledClusters clusters = MakeClusters(400, 6, 4, 16);
  const auto train = [&](std::size_t threads) {
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    SvmTrainer trainer({}, *clusters.features);
    SvmModel model = *trainer.Train(clusters.truth, 4);
    EXPECT_TRUE(trainer.FitProbabilities(model).ok());
    return model;
  };
  const SvmModel one = train(1), four = train(4);
  EXPECT_EQ(one.support_rows, four.support_rows);
  EXPECT_EQ(LargestDifference(one.coefficients.view(), four.coefficients.view()), 0);
  for (std::size_t p = 0; p < one.pairs.size(); ++p) {
    EXPECT_EQ(one.pairs[p].rho, four.pairs[p].rho);
    EXPECT_EQ(one.pairs[p].platt.a, four.pairs[p].platt.a);
    EXPECT_EQ(one.pairs[p].platt.b, four.pairs[p].platt.b);
  }
}

TEST(SvmTrainer, RefusesAKernelThatIsNotFiniteAndNamesTheRow) {
  Matrix<double> points(4, 1);
  for (std::size_t i = 0; i < 4; ++i) points(i, 0) = i == 2 ? 3.0 : 0.1;
  const kernel::DenseFeatures features(std::move(points));
  const std::vector<ClassIndex> labels = {0, 1, 0, 1};
  SvmTrainer trainer({.kernel = {.type = kernel::KernelType::kPoly, .offset = 0.5, .degree = 1000}}, features);
  const auto model = trainer.Train(labels, 2);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("row 2"));
}

}  // namespace
}  // namespace fulcrum::classify
