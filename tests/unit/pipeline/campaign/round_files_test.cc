#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kClasses = 3;

job::RoundPlan Plan() {
  job::RoundPlan plan;
  plan.set_campaign("birds");
  plan.set_folder("/data/birds");
  plan.set_round(7);
  plan.set_rows(4);
  plan.set_token("c0ffee");
  return plan;
}

RoundResult Result() {
  RoundResult result;
  result.selection.picks = {{.row = 2, .class_index = 1, .leverage = 0.25, .gain = 3}, {.row = 0}};
  result.selection.has_certificate = true;
  result.selection.certificate = {.value = 4, .upper_bound = 5};
  result.predicted = {0, 1, 1, 2};
  result.leverage = {0, 0.5, 0.25, 0};
  result.svm = SvmReport{.support_vectors = 2, .dual_objective = -1, .iterations = 9, .decision_columns_computed = 2};
  classify::SvmModel model;
  model.class_count = kClasses;
  model.kernel = {.type = kernel::KernelType::kLinear, .offset = 2};
  model.pairs = {{.first = 0, .second = 1, .rho = 0.5, .has_platt = true, .platt = {-1, 0.25}},
                 {.first = 1, .second = 2, .rho = -0.5, .platt = {}}};
  model.support_rows = {1, 3};
  model.coefficients = Matrix<double>(2, 2);
  model.coefficients(1, 0) = 0.125;
  result.model = std::make_shared<const classify::SvmModel>(std::move(model));
  TunedSettings tuning;
  tuning.chosen = {.normalize = "robust", .classifier = "logistic", .c = 30};
  tuning.labels = 12;
  result.tuning = std::make_shared<const TunedSettings>(tuning);
  result.seconds = {{"train", 0.5}};
  return result;
}

class RoundFilesTest : public ::testing::Test {
 protected:
  std::string OutcomeBytes() const {
    std::ifstream file(folder_.File("job/outcome"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const testing::TemporaryDirectory folder_;
  const RoundFiles files_{folder_.File("job")};
};

TEST_F(RoundFilesTest, APlanIsFoundByItsPath) {
  EXPECT_EQ(files_.ReadPlan().status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(files_.WritePlan(Plan()).ok());
  const auto plan = RoundFiles::NextTo(files_.plan()).ReadPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->campaign(), "birds");
  std::ofstream(files_.plan()) << "not a plan";
  EXPECT_EQ(files_.ReadPlan().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(RoundFilesTest, AResultComesBackAsItWas) {
  ASSERT_TRUE(files_.WritePlan(Plan()).ok());
  EXPECT_FALSE(files_.ReadOutcome(Plan(), kClasses).has_value());
  const RoundResult wrote = Result();
  ASSERT_TRUE(files_.WriteOutcome(Plan(), Result()).ok());
  const auto outcome = files_.ReadOutcome(Plan(), kClasses);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->ok()) << outcome->status();
  const RoundResult& read = **outcome;
  ASSERT_EQ(read.selection.picks.size(), 2u);
  EXPECT_EQ(read.selection.picks[0].row, 2u);
  EXPECT_EQ(read.selection.picks[0].class_index, 1);
  EXPECT_EQ(read.selection.picks[0].leverage, 0.25);
  EXPECT_EQ(read.selection.picks[0].gain, 3);
  EXPECT_EQ(read.selection.picks[1].class_index, kUnlabeled);
  EXPECT_EQ(read.selection.certificate.value, 4);
  EXPECT_EQ(read.selection.certificate.upper_bound, 5);
  EXPECT_EQ(read.predicted, wrote.predicted);
  EXPECT_EQ(read.leverage, wrote.leverage);
  EXPECT_EQ(read.svm->iterations, 9u);
  EXPECT_EQ(read.model->kernel, wrote.model->kernel);
  EXPECT_EQ(read.model->pairs[0].platt.b, 0.25);
  EXPECT_EQ(read.model->pairs[1].rho, -0.5);
  EXPECT_THAT(read.model->support_rows, ElementsAre(1, 3));
  EXPECT_EQ(read.model->coefficients(1, 0), 0.125);
  EXPECT_EQ(read.tuning->chosen.normalize, "robust");
  EXPECT_EQ(read.seconds[0].stage, "train");
}

TEST_F(RoundFilesTest, AnErrorComesBackAsItWas) {
  ASSERT_TRUE(files_.WritePlan(Plan()).ok());
  ASSERT_TRUE(files_.WriteOutcome(Plan(), absl::OutOfRangeError("nothing is left")).ok());
  const auto outcome = files_.ReadOutcome(Plan(), kClasses);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->status(), absl::OutOfRangeError("nothing is left"));
}

TEST_F(RoundFilesTest, WhatIsNotAWholeOutcomeOfThisPlanIsNone) {
  ASSERT_TRUE(files_.WritePlan(Plan()).ok());
  ASSERT_TRUE(files_.WriteOutcome(Plan(), Result()).ok());
  job::RoundPlan other = Plan();
  other.set_token("another attempt");
  EXPECT_FALSE(files_.ReadOutcome(other, kClasses).has_value());
  other = Plan();
  other.set_rows(3);
  EXPECT_FALSE(files_.ReadOutcome(other, kClasses).has_value()) << "it has rows that the pool does not have";
  EXPECT_FALSE(files_.ReadOutcome(Plan(), 2).has_value()) << "it has a class that the campaign does not have";
  const std::string whole = OutcomeBytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(folder_.File("job/outcome"), std::ios::binary) << whole.substr(0, size);
    ASSERT_FALSE(files_.ReadOutcome(Plan(), kClasses).has_value()) << size << " of " << whole.size() << " bytes";
  }
}

TEST_F(RoundFilesTest, ProgressIsTheLatest) {
  ASSERT_TRUE(files_.WritePlan(Plan()).ok());
  EXPECT_FALSE(files_.ReadProgress().has_value());
  files_.WriteProgress({.stage = "train", .done = 1, .total = 2});
  files_.WriteProgress({.stage = "score", .done = 3, .total = 4});
  EXPECT_EQ(files_.ReadProgress(), (RoundFiles::Progress{.stage = "score", .done = 3, .total = 4}));
}

}  // namespace
}  // namespace fulcrum::pipeline
