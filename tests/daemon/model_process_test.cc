// A model of the user's own, over gRPC: tasks, leases, predictions, what is refused, and what survives a restart.
#include "tests/daemon/support/model_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "fulcrum/v1/model_service.grpc.pb.h"
#include "pipeline/web/web_site.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 200;
constexpr std::size_t kBatch = 6;

v1::CampaignSpec ExternalSpec(const std::string& name, int rounds, double lease_seconds = 60) {
  v1::CampaignSpec spec = CloudSpec(name, rounds);
  spec.mutable_selection()->set_strategy("margin");
  v1::ExternalModelSpec& external = *spec.mutable_classifier()->mutable_external();
  external.mutable_lease_time()->set_nanos(static_cast<int>(std::fmod(lease_seconds, 1) * 1e9));
  external.mutable_lease_time()->set_seconds(static_cast<int>(lease_seconds));
  return spec;
}

class ModelProcessTest : public DaemonTest {
 protected:
  void CreateStarted(const v1::CampaignSpec& spec) {
    DaemonClient client = Client();
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(spec.name()).ok());
  }
  /// Labels until the campaign waits for a model process; returns what it waits for.
  v1::WaitingFor LabelUntilTheModel(const std::string& name) {
    DaemonClient client = Client();
    for (int batch = 0; batch < 5; ++batch) {
      WorkUntilOver(client, name, "anna", kBatch);
      for (int look = 0; look < 500; ++look) {
        const v1::Campaign campaign = client.Get(name);
        for (const v1::WaitingFor& reason : campaign.waiting_for()) {
          if (reason.kind() == v1::WaitingFor::KIND_MODEL) return reason;
        }
        if (campaign.open_tasks() > 0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ADD_FAILURE() << "the campaign does not wait for a model process";
    return {};
  }
  v1::Campaign AwaitState(const std::string& name, v1::CampaignState state) {
    v1::Campaign campaign;
    for (int look = 0; look < 1500; ++look) {
      campaign = Client().Get(name);
      if (campaign.state() == state) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(campaign.state(), state) << campaign.ShortDebugString();
    return campaign;
  }
  ModelProcess Process(const std::string& campaign, const std::string& name) {
    return ModelProcess(daemon_->port(), campaign, name);
  }
};

TEST_F(ModelProcessTest, PredictsEveryRoundAndItsProbabilitiesAreUsedAndStored) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 5));
  std::thread labels([&] {
    DaemonClient client = Client();
    WorkUntilOver(client, "clouds", "anna");
  });
  ModelProcess process = Process("clouds", "mine");
  const int rounds = process.Run();
  labels.join();
  EXPECT_GE(rounds, 3);
  DaemonClient client = Client();
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
  const std::vector<v1::ModelTrained> models = client.Models("clouds");
  ASSERT_EQ(static_cast<int>(models.size()), rounds);
  for (const v1::ModelTrained& model : models) EXPECT_EQ(model.model_process(), "mine");

  v1::PredictRequest request;
  request.set_campaign("clouds");
  request.add_item_ids("4");
  request.add_item_ids("5");
  v1::PredictResponse response;
  ASSERT_TRUE(client.Predict(request, &response).ok());
  ASSERT_EQ(response.predictions_size(), 2);
  ASSERT_EQ(response.predictions(0).probabilities_size(), 2);
  EXPECT_NEAR(response.predictions(0).probabilities(0) + response.predictions(0).probabilities(1), 1, 1e-6);
  request.add_rows()->add_values(1);
  const grpc::Status refused = client.Predict(request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("'mine'"));
}

TEST_F(ModelProcessTest, MarginAsksForTheRowsThatTheModelDoubtsMost) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9));
  LabelUntilTheModel("clouds");
  ModelProcess process = Process("clouds", "mine");
  const v1::ModelTask task = process.AcquireOne();
  EXPECT_EQ(task.rows(), kRows);
  EXPECT_EQ(task.features(), 4);
  // Certain of all rows but six that have no label.
  const std::vector<std::int64_t> labeled = process.LabeledRows(task);
  EXPECT_EQ(static_cast<std::int64_t>(labeled.size()), task.labels());
  std::vector<float> probabilities;
  std::set<std::string> doubtful;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const bool has_label = std::find(labeled.begin(), labeled.end(), row) != labeled.end();
    const bool doubt = !has_label && row % 3 == 0 && doubtful.size() < kBatch;
    if (doubt) doubtful.insert(std::to_string(row));
    const float p = doubt ? 0.5F + 0.001F * static_cast<float>(doubtful.size()) : 0.99F;
    probabilities.push_back(p);
    probabilities.push_back(1 - p);
  }
  v1::SubmitPredictionsResponse stored;
  const grpc::Status status = process.Submit(task, probabilities, &stored);
  ASSERT_TRUE(status.ok()) << status.error_message();
  DaemonClient client = Client();
  WorkUntilOver(client, "clouds", "anna", kBatch);
  EXPECT_EQ(client.ExportedBatches("clouds")[task.round()], doubtful);
}

TEST_F(ModelProcessTest, TheCampaignSaysWhatItWaitsForAndAnExpiredLeaseGoesToAnotherProcess) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9, /*lease_seconds=*/1));
  const v1::WaitingFor waiting = LabelUntilTheModel("clouds");
  EXPECT_TRUE(waiting.has_since());
  EXPECT_EQ(waiting.until().seconds() - waiting.since().seconds(), 30 * 60);
  EXPECT_THAT(waiting.text(), AllOf(HasSubstr("model process"), HasSubstr("the campaign fails")));

  ModelProcess first = Process("clouds", "first"), second = Process("clouds", "second");
  const v1::ModelTask lost = first.AcquireOne();
  EXPECT_TRUE(first.Renew(lost).ok());
  EXPECT_EQ(second.Renew(lost).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const v1::ModelTask taken = second.AcquireOne();  // waits for the lease to expire
  EXPECT_GT(taken.epoch(), lost.epoch());
  EXPECT_EQ(first.Renew(lost).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(second.Release(taken).ok());
  const v1::ModelTask again = second.AcquireOne();
  EXPECT_GT(again.epoch(), taken.epoch());

  // Predictions are not fenced: those that arrive first count.
  v1::SubmitPredictionsResponse stored;
  ASSERT_TRUE(first.Submit(lost, first.Predict(lost), &stored).ok());
  EXPECT_TRUE(stored.late());
  const grpc::Status refused = second.Submit(again, std::vector<float>(2 * kRows, 0.5F), &stored);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ABORTED) << refused.error_message();
}

TEST_F(ModelProcessTest, ARequestIdTakesEffectOnce) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9));
  LabelUntilTheModel("clouds");
  ModelProcess process = Process("clouds", "mine");
  const v1::ModelTask task = process.AcquireOne();
  const std::vector<float> predictions = process.Predict(task);
  v1::SubmitPredictionsResponse stored, repeated;
  ASSERT_TRUE(process.Submit(task, predictions, &stored, "once").ok());
  // Also after the round that used them.
  LabelUntilTheModel("clouds");
  const grpc::Status again = process.Submit(task, predictions, &repeated, "once");
  ASSERT_TRUE(again.ok()) << again.error_message();
  EXPECT_EQ(repeated.sequence(), stored.sequence());
  std::vector<float> other = predictions;
  std::swap(other[0], other[1]);
  EXPECT_EQ(process.Submit(task, other, &repeated, "once").error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(process.Submit(task, other, &repeated).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ModelProcessTest, WrongPredictionsAreRefusedWithTheReason) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9));
  LabelUntilTheModel("clouds");
  ModelProcess process = Process("clouds", "mine");
  const v1::ModelTask task = process.AcquireOne();
  const std::vector<float> good = process.Predict(task);
  const auto expect = [&](const std::vector<float>& predictions, const std::string& text,
                          const ModelProcess::Edit& edit = {}) {
    v1::SubmitPredictionsResponse response;
    const grpc::Status status = process.Submit(task, predictions, &response, NewRequestId(), edit);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  };
  const auto with = [&](std::size_t at, float value) {
    std::vector<float> changed = good;
    changed[at] = value;
    return changed;
  };
  expect({good.begin(), good.end() - 2}, "there are predictions for 199 rows, and the task has 200");
  std::vector<float> long_one = good;
  long_one.insert(long_one.end(), {0.5F, 0.5F});
  expect(long_one, "more than 200 rows");
  expect({good.begin(), good.end() - 1}, "not a multiple of 8");
  expect(with(14, std::numeric_limits<float>::quiet_NaN()), "row 7: the probability of class 'neg' is");
  expect(with(15, -0.5F), "row 7: the probability of class 'pos' is -0.5");
  expect(with(14, good[14] > 0.5F ? 0.0F : 1.0F), "row 7: the probabilities of the 2 classes sum to");
  expect(good, "the stream ended before 'end'", [](auto& messages) { messages.pop_back(); });
  expect(good, "the first message must be 'begin'", [](auto& messages) { messages.erase(messages.begin()); });
  expect(good, "there never was a lease", [](auto& messages) { messages[0].mutable_begin()->set_lease_id(1); });
  expect(good, "reading the predictions", [](auto& messages) { messages[1].set_arrow("no Arrow at all"); });
  EXPECT_TRUE(process.Renew(task).ok()) << "nothing of it ended the lease";
  v1::SubmitPredictionsResponse stored;
  EXPECT_TRUE(process.Submit(task, good, &stored).ok());
}

TEST_F(ModelProcessTest, ReturnedFeaturesAreTheDistancesFromTheNextRoundOn) {
  StartDaemon();
  const auto k_center = [](const std::string& name) {
    v1::CampaignSpec spec = ExternalSpec(name, 9);
    spec.mutable_selection()->set_strategy("k-center");
    return spec;
  };
  // Returns the round. What k-center selects does not depend on the probabilities.
  const auto answer = [&](const std::string& campaign, const ModelProcess::Edit& edit = {}) {
    LabelUntilTheModel(campaign);
    ModelProcess process = Process(campaign, "mine");
    const v1::ModelTask task = process.AcquireOne();
    v1::SubmitPredictionsResponse stored;
    const grpc::Status status =
        process.Submit(task, std::vector<float>(2 * kRows, 0.5F), &stored, NewRequestId(), edit);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return task.round();
  };
  CreateStarted(k_center("plain"));
  const std::int64_t round = answer("plain");
  answer("plain");
  LabelUntilTheModel("plain");
  const auto plain = Client().ExportedBatches("plain");

  // Six rows that nobody was asked about are far from all others and from each other.
  std::set<std::string> asked, far;
  for (std::int64_t each = 1; each <= round + 1; ++each) asked.insert(plain.at(each).begin(), plain.at(each).end());
  std::vector<float> features(kBatch * kRows, 0.0F);
  for (std::size_t row = 0; row < kRows && far.size() < kBatch; ++row) {
    if (asked.contains(std::to_string(row))) continue;
    features[row * kBatch + far.size()] = 10;
    far.insert(std::to_string(row));
  }
  CreateStarted(k_center("embedded"));
  const auto with_features = [&](auto& messages) {
    messages.insert(messages.begin() + 1, ModelProcess::FeaturesOf(kRows, features));
  };
  ASSERT_EQ(answer("embedded", with_features), round);
  // Durable with the predictions.
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(answer("embedded"), round + 1);
  EXPECT_EQ(answer("embedded"), round + 2);
  LabelUntilTheModel("embedded");
  const auto embedded = Client().ExportedBatches("embedded");
  EXPECT_EQ(embedded.at(round), plain.at(round)) << "not yet in the round that they came with";
  EXPECT_EQ(embedded.at(round + 1), far);
  std::map<std::int64_t, std::int64_t> features_of;
  DaemonClient client = Client();
  for (const v1::ModelTrained& model : client.Models("embedded")) features_of[model.round()] = model.features_round();
  EXPECT_EQ(features_of[round], 0);
  EXPECT_EQ(features_of[round + 1], round);
  EXPECT_EQ(features_of[round + 2], round) << "until others come";
}

TEST_F(ModelProcessTest, WrongFeaturesAreRefusedWithTheReason) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9));
  LabelUntilTheModel("clouds");
  ModelProcess process = Process("clouds", "mine");
  const v1::ModelTask task = process.AcquireOne();
  const std::vector<float> predictions = process.Predict(task);
  const auto expect = [&](std::int64_t rows, const std::vector<float>& values, const std::string& text) {
    v1::SubmitPredictionsResponse response;
    const grpc::Status status = process.Submit(task, predictions, &response, NewRequestId(), [&](auto& messages) {
      messages.insert(messages.end() - 1, ModelProcess::FeaturesOf(rows, values));
    });
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  };
  std::vector<float> bad(3 * kRows, 1.0F);
  bad[7] = std::numeric_limits<float>::infinity();
  expect(kRows, bad, "row 2: feature 1 (counted from 0) is inf");
  bad[7] = 1e30F;
  expect(kRows, bad, "row 2: its features have the squared length");
  expect(kRows - 1, std::vector<float>(2 * (kRows - 1), 1.0F), "features for 199 rows, and the task has 200");
  expect(kRows + 1, std::vector<float>(kRows + 1, 1.0F), "more than 200 rows");
  expect(kRows, std::vector<float>(kRows + 1, 1.0F), "one 32-bit float for each row and feature");
  v1::SubmitPredictionsResponse response;
  const auto no_arrow = [](auto& messages) { messages.back().set_arrow_features("no Arrow at all"); };
  EXPECT_THAT(process.Submit(task, predictions, &response, NewRequestId(), no_arrow).error_message(),
              HasSubstr("reading the predictions"));
  EXPECT_TRUE(process.Submit(task, predictions, &response).ok()) << "nothing of it ended the lease";
}

TEST_F(ModelProcessTest, AfterTheTimeTheBuiltInClassifierOrFailure) {
  StartDaemon();
  v1::CampaignSpec spec = ExternalSpec("builtin", 9);
  spec.mutable_classifier()->mutable_external()->mutable_timeout()->set_seconds(2);
  spec.mutable_classifier()->mutable_external()->set_fallback(v1::ExternalModelSpec::FALLBACK_BUILTIN);
  CreateStarted(spec);
  LabelUntilTheModel("builtin");
  DaemonClient client = Client();
  WorkUntilOver(client, "builtin", "anna", kBatch);  // the next round comes without a process
  const std::vector<v1::ModelTrained> models = client.Models("builtin");
  ASSERT_FALSE(models.empty());
  EXPECT_EQ(models[0].model_process(), "");
  EXPECT_GT(models[0].support_vectors(), 0);

  spec.set_name("fails");
  spec.mutable_classifier()->mutable_external()->set_fallback(v1::ExternalModelSpec::FALLBACK_FAIL);
  CreateStarted(spec);
  LabelUntilTheModel("fails");
  const v1::Campaign failed = AwaitState("fails", v1::CAMPAIGN_STATE_FAILED);
  EXPECT_THAT(failed.state_reason(), AllOf(HasSubstr("no model process"), HasSubstr("classifier.external.timeout")));
  // More time, and it goes on.
  v1::CampaignSpec changed = spec;
  changed.mutable_classifier()->mutable_external()->mutable_timeout()->set_seconds(600);
  ASSERT_TRUE(client.Update("fails", changed, {"classifier.external.timeout"}).ok());
  ASSERT_TRUE(client.Start("fails").ok());
  ModelProcess process = Process("fails", "mine");
  const v1::ModelTask task = process.AcquireOne();
  v1::SubmitPredictionsResponse stored;
  EXPECT_TRUE(process.Submit(task, process.Predict(task), &stored).ok());
}

TEST_F(ModelProcessTest, ARestartedDaemonGoesOnWithTheSamePredictionsAndBatches) {
  StartDaemon();
  CreateStarted(ExternalSpec("reference", 4));
  CreateStarted(ExternalSpec("restarted", 4));
  std::thread labels([&] {
    DaemonClient client = Client();
    WorkUntilOver(client, "reference", "anna");
  });
  ModelProcess reference = Process("reference", "mine");
  reference.Run();
  labels.join();

  const auto restart = [&] {
    StopDaemon();
    StartDaemon();
  };
  while (Client().Get("restarted").state() != v1::CAMPAIGN_STATE_DONE) {
    LabelUntilTheModel("restarted");
    restart();
    const v1::ModelTask task = Process("restarted", "mine").AcquireOne();
    restart();
    // The lease survived: nobody else can have the task.
    v1::AcquireModelTaskResponse nothing;
    ASSERT_TRUE(Process("restarted", "other").Acquire(&nothing, 0).ok());
    EXPECT_FALSE(nothing.has_task());
    ModelProcess process = Process("restarted", "mine");
    v1::SubmitPredictionsResponse stored;
    const grpc::Status status = process.Submit(task, process.Predict(task), &stored);
    ASSERT_TRUE(status.ok()) << status.error_message();
    restart();
    DaemonClient client = Client();
    for (int look = 0; look < 1500; ++look) {
      const v1::Campaign campaign = client.Get("restarted");
      if (campaign.open_tasks() > 0 || campaign.state() == v1::CAMPAIGN_STATE_DONE) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_EQ(Client().ExportedBatches("restarted"), Client().ExportedBatches("reference"));
}

TEST_F(ModelProcessTest, ATaskKeepsItsLabelsWhateverArrivesAndIfTheDaemonRestarts) {
  StartDaemon();
  CreateStarted(ExternalSpec("clouds", 9));
  LabelUntilTheModel("clouds");
  const v1::ModelTask task = Process("clouds", "mine").AcquireOne();
  const std::vector<std::int64_t> labeled = Process("clouds", "mine").LabeledRows(task);
  ASSERT_EQ(static_cast<std::int64_t>(labeled.size()), task.labels());
  // One label more, and another one that is no longer the answer that LabeledRows expects.
  DaemonClient client = Client();
  grpc::ClientContext context;
  v1::ImportLabelsRequest import;
  import.set_campaign("clouds");
  import.set_source("elsewhere");
  import.set_request_id(NewRequestId());
  std::int64_t other = 0;
  while (std::ranges::find(labeled, other) != labeled.end()) ++other;
  import.add_labels()->set_item_id(std::to_string(other));
  import.mutable_labels(0)->set_value("neg");
  v1::ImportLabelsResponse imported;
  ASSERT_TRUE(client.campaigns().ImportLabels(&context, import, &imported).ok());
  v1::ChangeLabelsRequest change;
  change.set_campaign("clouds");
  change.set_annotator("anna");
  change.set_request_id(NewRequestId());
  change.add_changes()->set_item_id(std::to_string(labeled[0]));
  change.mutable_changes(0)->set_value(AnswerTo(std::to_string(labeled[0])) == "neg" ? "pos" : "neg");
  v1::ChangeLabelsResponse changed;
  ASSERT_TRUE(client.Change(change, &changed).ok());
  ASSERT_EQ(changed.results(0).status().code(), 0) << changed.ShortDebugString();
  EXPECT_EQ(Process("clouds", "mine").LabeledRows(task), labeled);

  StopDaemon();
  StartDaemon();
  ModelProcess process = Process("clouds", "mine");
  EXPECT_EQ(process.LabeledRows(task), labeled);
  ASSERT_TRUE(process.Release(task).ok());
  const v1::ModelTask again = Process("clouds", "other").AcquireOne();
  EXPECT_EQ(again.task_id(), task.task_id());
  EXPECT_EQ(again.labels(), task.labels());
}

TEST_F(ModelProcessTest, WhatCannotWorkIsRefusedByName) {
  StartDaemon();
  DaemonClient client = Client();
  for (const char* const strategy : {"committee", "quire", "nearopt"}) {
    v1::CampaignSpec spec = ExternalSpec("clouds", 2);
    spec.mutable_selection()->set_strategy(strategy);
    const grpc::Status status = client.Create(spec);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), AllOf(HasSubstr(strategy), HasSubstr("trains models of its own")));
  }
  v1::CampaignSpec measured = ExternalSpec("clouds", 2);
  measured.mutable_stop()->mutable_accuracy()->add_sources("clouds.csv");
  EXPECT_THAT(client.Create(measured).error_message(), HasSubstr("stop.accuracy"));
  CreateStarted(CloudSpec("builtin", 2));
  v1::AcquireModelTaskResponse response;
  const grpc::Status status = Process("builtin", "mine").Acquire(&response, 0);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("classifier.external"));
}

TEST(ModelServiceOverJson, UnaryCallsAndStreamsOfResponsesCanBeCalled) {
  using pipeline::ConnectGateway;
  for (const char* const method : {"AcquireModelTask", "RenewModelTask", "ReleaseModelTask", "GetModelRows"}) {
    const auto* const found = ConnectGateway::Find(std::string("/fulcrum.v1.ModelService/") + method);
    ASSERT_NE(found, nullptr) << method;
    EXPECT_TRUE(ConnectGateway::CheckCallable(*found).ok()) << method;
  }
}

}  // namespace
}  // namespace fulcrum::testing
