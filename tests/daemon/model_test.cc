// Models: retraining, what is stored of them, and predictions.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/classify/model_file.h"
#include "storage/maintenance/maintenance.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<std::string> AllItems() {
  std::vector<std::string> items;
  for (int row = 0; row < 200; ++row) items.push_back(absl::StrCat(row));
  return items;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// The solver stops at a KKT violation of 1e-3; the error of decision values of unit rows is a small multiple of it.
constexpr double kTolerance = 1e-2;

/// With the same classifier in every round: one that tunes itself starts cold when it changes its settings.
v1::CampaignSpec FixedSpec(const std::string& name, int rounds) {
  v1::CampaignSpec spec = CloudSpec(name, rounds);
  spec.mutable_classifier()->set_tune(v1::TUNING_OFF);
  return spec;
}

class ModelTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
  }
  void Run(const v1::CampaignSpec& spec, std::size_t labels = SIZE_MAX) {
    const grpc::Status created = client_->Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client_->Start(spec.name()).ok());
    WorkUntilOver(*client_, spec.name(), "ada", labels);
  }
  void Restart() {
    StopDaemon();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
  }
  /// Creates a campaign whose only model is trained on these labels, cold.
  void TrainOnce(const std::string& name, const std::map<std::string, std::string>& labels) {
    TrainOnce(FixedSpec(name, 1), labels);
  }
  void TrainOnce(const v1::CampaignSpec& spec, const std::map<std::string, std::string>& labels) {
    const std::string& name = spec.name();
    ASSERT_TRUE(client_->Create(spec).ok());
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::ImportLabelsRequest request;
    request.set_campaign(name);
    request.set_source("test");
    request.set_request_id(NewRequestId());
    for (const auto& [item, value] : labels) {
      auto& entry = *request.add_labels();
      entry.set_item_id(item);
      entry.set_value(value);
    }
    v1::ImportLabelsResponse response;
    ASSERT_TRUE(client_->campaigns().ImportLabels(&context, request, &response).ok());
    ASSERT_TRUE(client_->Start(name).ok());
    client_->AcquireOne(name, "ada");  // a batch exists, so a model exists
  }
  /// Returns the current labels according to the log.
  std::map<std::string, std::string> Labels(const std::string& name) const {
    std::map<std::string, std::string> labels;
    for (const v1::ExportedLabel& label : client_->Export(name)) {
      labels[label.item_id()] = label.value();
      if (label.kind() == v1::LABEL_KIND_WITHDRAWAL) labels.erase(label.item_id());
    }
    return labels;
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(ModelTest, OldModelsAndScoresAreRemovedIfTheSpecificationSaysSo) {
  v1::CampaignSpec spec = FixedSpec("short", 5);
  spec.mutable_retention()->set_models(2);
  spec.mutable_retention()->set_scores(1);
  Run(spec);
  v1::ModelDescription description;
  std::string bytes;
  const grpc::Status old = client_->Model("short", 2, &description, &bytes);
  EXPECT_EQ(old.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(old.error_message(), ::testing::HasSubstr("the model of round 2 was removed"));
  EXPECT_TRUE(client_->Model("short", 0, &description, &bytes).ok());
  Restart();
  EXPECT_TRUE(client_->Model("short", 0, &description, &bytes).ok());
  StopDaemon();
  const auto report = storage::CheckCampaign(folder_.File("data/campaigns/short"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, ::testing::IsEmpty());
}

TEST_F(ModelTest, WarmAndFromNothingAreTheSameModelToTheSolversTolerance) {
  v1::CampaignSpec cold = FixedSpec("cold", 6);
  cold.mutable_classifier()->set_full_every(1);
  Run(FixedSpec("warm", 6));
  Run(cold);
  ASSERT_EQ(Labels("warm"), Labels("cold")) << "they chose different examples";
  EXPECT_LT(LargestDifference(client_->Decisions("warm", AllItems()), client_->Decisions("cold", AllItems())),
            kTolerance);
  const std::vector<v1::ModelTrained> warm = client_->Models("warm"), from_nothing = client_->Models("cold");
  ASSERT_THAT(warm, SizeIs(6));
  for (std::size_t i = 1; i < warm.size(); ++i) {
    EXPECT_TRUE(warm[i].warm()) << i;
    EXPECT_FALSE(from_nothing[i].warm()) << i;
    EXPECT_GT(warm[i].effort().kernel_columns_computed(), 0) << i;
    EXPECT_EQ(from_nothing[i].effort().kernel_columns_kept(), 0) << i;
    EXPECT_EQ(warm[i].effort().cold_solver_iterations(), warm[0].effort().solver_iterations()) << i;
  }
}

v1::CampaignSpec WithWeights(v1::CampaignSpec spec, double neg, double pos) {
  for (const auto& [name, weight] : {std::pair("neg", neg), std::pair("pos", pos)}) {
    v1::ClassWeight& entry = *spec.mutable_classifier()->add_class_weights();
    entry.set_name(name);
    entry.set_weight(weight);
  }
  return spec;
}

TEST_F(ModelTest, WeightsOfClassesAreFactorsOfThePenalty) {
  std::map<std::string, std::string> labels;
  for (int item = 0; item < 60; ++item) labels[absl::StrCat(item)] = AnswerTo(absl::StrCat(item));
  v1::CampaignSpec penalty = FixedSpec("penalty", 1);
  penalty.mutable_classifier()->set_c(0.05);
  TrainOnce(penalty, labels);
  TrainOnce(WithWeights(FixedSpec("both", 1), 0.05, 0.05), labels);
  TrainOnce(WithWeights(FixedSpec("positive", 1), 0.05, 1), labels);
  const std::vector<double> reference = client_->Decisions("penalty", AllItems());
  EXPECT_LT(LargestDifference(client_->Decisions("both", AllItems()), reference), kTolerance);
  const std::vector<double> weighted = client_->Decisions("positive", AllItems());
  EXPECT_GT(LargestDifference(weighted, reference), 10 * kTolerance) << "one class weighs more than the other";
}

TEST_F(ModelTest, ChangedWeightsOfClassesApplyFromTheNextRoundOn) {
  Run(FixedSpec("clouds", 4), 12);
  ASSERT_TRUE(client_->Update("clouds", WithWeights({}, 0.05, 0.05), {"classifier.class_weights"}).ok());
  EXPECT_EQ(client_->Get("clouds").spec().classifier().class_weights_size(), 2);
  WorkUntilOver(*client_, "clouds", "ada");
  v1::CampaignSpec penalty = FixedSpec("penalty", 1);
  penalty.mutable_classifier()->set_c(0.05);
  TrainOnce(penalty, Labels("clouds"));
  EXPECT_LT(LargestDifference(client_->Decisions("clouds", AllItems()), client_->Decisions("penalty", AllItems())),
            kTolerance);
  // And back.
  v1::CampaignSpec more = FixedSpec("clouds", 5);
  ASSERT_TRUE(client_->Update("clouds", more, {"classifier.class_weights", "stop.rounds"}).ok());
  WorkUntilOver(*client_, "clouds", "ada");
  TrainOnce("plain", Labels("clouds"));
  EXPECT_LT(LargestDifference(client_->Decisions("clouds", AllItems()), client_->Decisions("plain", AllItems())),
            kTolerance);
}

TEST_F(ModelTest, RetrainingOnRequestStartsTheNextRoundFromNothing) {
  Run(FixedSpec("clouds", 5), 14);  // in the middle of the third round
  ASSERT_TRUE(client_->Retrain("clouds").ok());
  WorkUntilOver(*client_, "clouds", "ada");
  std::vector<bool> warm;
  for (const v1::ModelTrained& model : client_->Models("clouds")) warm.push_back(model.warm());
  EXPECT_THAT(warm, ElementsAre(false, true, false, true, true));
  EXPECT_EQ(client_->Retrain("clouds").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ModelTest, AChangedLabelAndAWithdrawnOneAreUnlearned) {
  ASSERT_TRUE(client_->Create(FixedSpec("clouds", 3)).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  const v1::Task wrong = client_->AcquireOne("clouds", "ada"), regretted = client_->AcquireOne("clouds", "ada");
  const std::string right = AnswerTo(wrong.item_id());
  EXPECT_EQ(client_->SubmitOne("clouds", "ada", wrong, right == "pos" ? "neg" : "pos"), 0);
  EXPECT_EQ(client_->SubmitOne("clouds", "ada", regretted, AnswerTo(regretted.item_id())), 0);
  WorkUntilOver(*client_, "clouds", "ada", 4);
  const v1::Task next = client_->AcquireOne("clouds", "ada");  // the model with the wrong labels is trained
  const std::vector<double> before = client_->Decisions("clouds", AllItems());

  v1::ChangeLabelsRequest request;
  request.set_campaign("clouds");
  request.set_annotator("ada");
  request.set_request_id("change");
  request.add_changes()->set_item_id(wrong.item_id());
  request.mutable_changes(0)->set_value(right);
  request.add_changes()->set_item_id(regretted.item_id());
  request.mutable_changes(1)->set_withdraw(true);
  request.add_changes()->set_item_id(next.item_id());
  request.mutable_changes(2)->set_value("pos");
  request.add_changes()->set_item_id(wrong.item_id());
  request.mutable_changes(3)->set_value("maybe");
  request.add_changes()->set_item_id(wrong.item_id());
  v1::ChangeLabelsResponse response;
  ASSERT_TRUE(client_->Change(request, &response).ok());
  std::vector<int> codes;
  for (const auto& result : response.results()) codes.push_back(result.status().code());
  EXPECT_THAT(codes, ElementsAre(grpc::OK, grpc::OK, grpc::NOT_FOUND, grpc::INVALID_ARGUMENT, grpc::INVALID_ARGUMENT));
  v1::ChangeLabelsResponse repeated;
  ASSERT_TRUE(client_->Change(request, &repeated).ok());
  EXPECT_EQ(repeated.results(0).sequence(), response.results(0).sequence());

  EXPECT_EQ(client_->SubmitOne("clouds", "ada", next, AnswerTo(next.item_id())), 0);
  // Ada is not asked again about items whose labels she withdrew; other annotators are.
  WorkUntilOver(*client_, "clouds", "bob");
  EXPECT_TRUE(client_->Models("clouds").back().warm());
  const std::map<std::string, std::string> labels = Labels("clouds");
  EXPECT_EQ(labels.at(wrong.item_id()), right);
  TrainOnce("fresh", labels);
  const std::vector<double> after = client_->Decisions("clouds", AllItems());
  EXPECT_LT(LargestDifference(after, client_->Decisions("fresh", AllItems())), kTolerance);
  EXPECT_GT(LargestDifference(after, before), kTolerance) << "nothing was learned, so nothing shows";
}

TEST_F(ModelTest, ATunedClassifierSaysWhatItChoseAndContinuesAfterARestart) {
  Run(CloudSpec("whole", 6));
  Run(CloudSpec("broken", 6), 20);  // in the middle of a round
  Restart();
  WorkUntilOver(*client_, "broken", "ada");
  EXPECT_EQ(Labels("whole"), Labels("broken"));
  const std::vector<v1::ModelTrained> whole = client_->Models("whole"), broken = client_->Models("broken");
  ASSERT_EQ(whole.size(), broken.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].tuning().DebugString(), broken[i].tuning().DebugString());
    EXPECT_FALSE(whole[i].tuning().chosen().normalize().empty());
    EXPECT_GT(whole[i].tuning().leverage_sigma(), 0);
  }
  const v1::ClassifierTuning& last = whole.back().tuning();
  EXPECT_GE(last.labels(), 20);
  EXPECT_EQ(last.runners_up_size(), 3);
  EXPECT_LT(last.chosen().log_loss(), last.runners_up(0).log_loss() + 1e-12);
  v1::PredictRequest request;
  request.set_campaign("whole");
  request.add_item_ids("0");
  v1::PredictResponse response;
  ASSERT_TRUE(client_->Predict(request, &response).ok());
  EXPECT_EQ(response.predictions(0).probabilities_size(), 2) << "whatever the strategy";
}

TEST_F(ModelTest, StopsWhenNothingGetsBetterAndARestartDoesNotStartTheCountAnew) {
  // Every round counts: accuracy never improves by more than 0.99, and never do all predictions change.
  v1::CampaignSpec stable = CloudSpec("stable", 0), plateau = CloudSpec("plateau", 0);
  stable.mutable_stop()->mutable_stable()->set_rounds(3);
  stable.mutable_stop()->mutable_stable()->set_share(0.99);
  plateau.mutable_stop()->mutable_plateau()->set_rounds(3);
  plateau.mutable_stop()->mutable_plateau()->set_improvement(0.99);
  for (v1::CampaignSpec* spec : {&stable, &plateau}) {
    const std::string name = spec->name();
    Run(*spec);
    // The first model is of the second round; three more, and the campaign ends after four answered rounds.
    EXPECT_EQ(client_->Get(name).labels(), 24) << client_->Get(name).state_reason();
    EXPECT_THAT(client_->Get(name).state_reason(), ::testing::HasSubstr("for 3 rounds"));
    spec->set_name(name + "-broken");
    Run(*spec, 20);
    Restart();
    WorkUntilOver(*client_, spec->name(), "ada");
    EXPECT_EQ(client_->Get(spec->name()).labels(), 24) << client_->Get(spec->name()).state_reason();
    EXPECT_THAT(client_->Models(spec->name()), SizeIs(client_->Models(name).size()));
  }
}

TEST_F(ModelTest, AModelComesWithWhatItWasTrainedOn) {
  ASSERT_TRUE(client_->Create(CloudSpec("clouds", 4)).ok());
  v1::ModelDescription description;
  std::string bytes;
  EXPECT_EQ(client_->Model("clouds", 0, &description, &bytes).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(client_->Start("clouds").ok());
  WorkUntilOver(*client_, "clouds", "ada");
  ASSERT_TRUE(client_->Model("clouds", 0, &description, &bytes).ok());
  EXPECT_EQ(description.round(), 5);
  EXPECT_EQ(description.bytes(), static_cast<std::int64_t>(bytes.size()));
  EXPECT_EQ(description.trained().labels(), 24);
  const std::vector<v1::ExportedLabel> labels = client_->Export("clouds");
  EXPECT_GE(description.trained_on(), labels.back().sequence());
  const auto model = classify::ParseSvm(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->model.support_rows.size(), static_cast<std::size_t>(description.trained().support_vectors()));

  v1::ModelDescription second;
  std::string second_bytes;
  ASSERT_TRUE(client_->Model("clouds", 3, &second, &second_bytes).ok());
  EXPECT_EQ(second.round(), 3);
  EXPECT_LT(second.trained_on(), description.trained_on());
  EXPECT_NE(second_bytes, bytes);
  EXPECT_EQ(client_->Model("clouds", 77, &second, &second_bytes).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ModelTest, PredictsExamplesOfThePoolAndRowsAlike) {
  v1::CampaignSpec spec = CloudSpec("clouds", 4);
  spec.mutable_selection()->set_strategy("uncertainty");
  Run(spec);
  const std::vector<std::string> lines = absl::StrSplit(CloudsText(200), '\n', absl::SkipEmpty());
  v1::PredictRequest request;
  request.set_campaign("clouds");
  for (const std::string& item : AllItems()) request.add_item_ids(item);
  for (std::size_t row = 0; row < 200; ++row) {
    v1::FeatureRow& features = *request.add_rows();
    for (const auto value : absl::StrSplit(lines[row + 1], ',')) {
      double number = 0;
      ASSERT_TRUE(absl::SimpleAtod(value, &number));
      features.add_values(number);
    }
  }
  v1::PredictResponse response;
  const grpc::Status status = client_->Predict(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.predictions_size(), 400);
  EXPECT_THAT(response.classes(), ElementsAre("neg", "pos"));
  int right = 0;
  for (int row = 0; row < 200; ++row) {
    const v1::Prediction& named = response.predictions(row);
    const v1::Prediction& given = response.predictions(row + 200);
    EXPECT_EQ(named.value(), given.value());
    EXPECT_NEAR(named.decision_values(0), given.decision_values(0), 1e-9);
    EXPECT_NEAR(named.probabilities(0) + named.probabilities(1), 1, 1e-9);
    EXPECT_EQ(named.value(), named.decision_values(0) > 0 ? response.pairs(0).first() : response.pairs(0).second());
    right += named.value() == AnswerTo(absl::StrCat(row)) ? 1 : 0;
  }
  EXPECT_GT(right, 160);
}

TEST_F(ModelTest, WhatCannotBePredictedIsRefused) {
  Run(CloudSpec("clouds", 2));
  const auto code = [&](const std::function<void(v1::PredictRequest&)>& fill) {
    v1::PredictRequest request;
    request.set_campaign("clouds");
    fill(request);
    v1::PredictResponse response;
    return client_->Predict(request, &response).error_code();
  };
  EXPECT_EQ(code([](auto&) {}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto& request) { request.add_item_ids("nobody"); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code([](auto& request) { request.add_rows()->add_values(1); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto& request) {
              v1::FeatureRow& row = *request.add_rows();
              for (const double value : {1.0, 2.0, 3.0, std::nan("")}) row.add_values(value);
            }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto& request) {
              request.add_rows()->add_values(1);
              request.mutable_rows(0)->add_indices(4);
            }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto& request) {
              request.add_rows()->add_values(1);
              request.mutable_rows(0)->add_indices(3);
            }),
            grpc::StatusCode::OK);
  EXPECT_EQ(code([](auto& request) {
              request.set_round(99);
              request.add_item_ids("0");
            }),
            grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace fulcrum::testing
