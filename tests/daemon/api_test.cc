// What administrators rely on: long-running operations, updates of running campaigns, streams that are resumed, and
// request ids.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ApiTest : public DaemonTest {
 protected:
  /// A pool whose import takes long enough to be interrupted.
  void WriteLargePool() { folder_.Write("pools/large.csv", CloudsText(400'000)); }
  static v1::CampaignSpec LargeSpec(const std::string& name) {
    v1::CampaignSpec spec = CloudSpec(name, 1);
    spec.mutable_pool()->set_sources(0, "large.csv");
    return spec;
  }
  std::vector<std::string> CampaignFolders() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("data/campaigns"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  static v1::CampaignSpec WithLabels(std::int64_t labels) {
    v1::CampaignSpec spec;
    spec.mutable_stop()->set_labels(labels);
    return spec;
  }
};

TEST_F(ApiTest, CreatingIsAnOperationAndItsRequestIdTakesEffectOnce) {
  StartDaemon();
  DaemonClient client = Client();
  v1::Operation first, again;
  ASSERT_TRUE(client.BeginCreate(CloudSpec("clouds", 2), "id-1", &first).ok());
  EXPECT_EQ(first.campaign(), "clouds");
  EXPECT_EQ(first.kind(), v1::OPERATION_KIND_CREATE_CAMPAIGN);
  ASSERT_TRUE(client.BeginCreate(CloudSpec("clouds", 2), "id-1", &again).ok());
  EXPECT_EQ(again.name(), first.name());
  EXPECT_EQ(client.BeginCreate(CloudSpec("clouds", 3), "id-1", &again).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(client.BeginCreate(CloudSpec("clouds", 2), "id-2", &again).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  const v1::Operation ended = client.AwaitOperation(first.name());
  EXPECT_EQ(ended.state(), v1::OPERATION_STATE_SUCCEEDED);
  EXPECT_EQ(ended.result().pool_rows(), 200);
  EXPECT_EQ(ended.rows_done(), 200);
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_CREATED);
  ASSERT_TRUE(client.BeginCreate(CloudSpec("clouds", 2), "id-1", &again).ok()) << "also after its end";
  EXPECT_EQ(again.name(), first.name());
}

TEST_F(ApiTest, AFailedOperationSaysWhyAndLeavesNothingBehind) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("lost", 2);
  spec.mutable_pool()->set_sources(0, "absent.csv");
  v1::Operation operation;
  ASSERT_TRUE(client.BeginCreate(spec, NewRequestId(), &operation).ok());
  operation = client.AwaitOperation(operation.name());
  EXPECT_EQ(operation.state(), v1::OPERATION_STATE_FAILED);
  EXPECT_THAT(operation.error().message(), HasSubstr("absent.csv"));
  EXPECT_THAT(CampaignFolders(), IsEmpty());
  ASSERT_TRUE(client.Create(CloudSpec("lost", 2)).ok()) << "the name is free again";
}

TEST_F(ApiTest, OperationsAreCancelledWhileTheyRunAndWhileTheyWait) {
  WriteLargePool();
  StartDaemon();
  DaemonClient client = Client();
  std::vector<std::string> names;
  for (const char* campaign : {"a", "b", "c"}) {
    v1::Operation operation;
    ASSERT_TRUE(client.BeginCreate(LargeSpec(campaign), NewRequestId(), &operation).ok());
    names.push_back(operation.name());
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    grpc::ClientContext context;
    client.Prepare(context);
    v1::CancelOperationRequest request;
    request.set_operation(*name);
    v1::CancelOperationResponse response;
    ASSERT_TRUE(client.operations().CancelOperation(&context, request, &response).ok());
  }
  for (const std::string& name : names) {
    EXPECT_EQ(client.AwaitOperation(name).state(), v1::OPERATION_STATE_CANCELLED) << name;
  }
  EXPECT_THAT(CampaignFolders(), IsEmpty());
  grpc::ClientContext context;
  client.Prepare(context);
  v1::ListOperationsResponse list;
  ASSERT_TRUE(client.operations().ListOperations(&context, {}, &list).ok());
  EXPECT_THAT(list.operations(), SizeIs(3));
  EXPECT_EQ(list.operations(0).name(), names[2]) << "the newest first";
}

TEST_F(ApiTest, OperationsSurviveARestart) {
  WriteLargePool();
  StartDaemon();
  std::vector<std::string> names;
  for (const char* campaign : {"a", "b", "c"}) {
    v1::Operation operation;
    ASSERT_TRUE(Client().BeginCreate(LargeSpec(campaign), NewRequestId(), &operation).ok());
    names.push_back(operation.name());
  }
  StopDaemon();
  StartDaemon();
  DaemonClient client = Client();
  for (const std::string& name : names) {
    EXPECT_EQ(client.AwaitOperation(name).state(), v1::OPERATION_STATE_SUCCEEDED) << name;
  }
  EXPECT_EQ(client.Get("b").pool_rows(), 400'000);
}

TEST_F(ApiTest, ADoneCampaignGoesOnWhenItsBudgetIsRaised) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("clouds", 0);
  spec.mutable_stop()->set_labels(12);
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(12));
  ASSERT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);

  ASSERT_TRUE(client.Update("clouds", WithLabels(30), {"stop.labels"}, "raise").ok());
  EXPECT_EQ(client.Get("clouds").spec().stop().labels(), 30);
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(18));
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
  ASSERT_TRUE(client.Update("clouds", WithLabels(30), {"stop.labels"}, "raise").ok());
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_DONE) << "a repeated request has no effect";

  // One that was stopped stays stopped.
  spec = CloudSpec("stopped", 3);
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("stopped").ok());
  ASSERT_TRUE(client.Stop("stopped").ok());
  ASSERT_TRUE(client.Update("stopped", WithLabels(1000), {"stop.labels"}).ok());
  EXPECT_EQ(client.Get("stopped").state(), v1::CAMPAIGN_STATE_DONE);
}

TEST_F(ApiTest, ARetriedUpdateDoesNotUndoALaterOne) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 3)).ok());
  ASSERT_TRUE(client.Update("clouds", WithLabels(30), {"stop.labels"}, "first").ok());
  ASSERT_TRUE(client.Update("clouds", WithLabels(40), {"stop.labels"}, "second").ok());
  EXPECT_TRUE(client.Update("clouds", WithLabels(30), {"stop.labels"}, "first").ok());
  EXPECT_EQ(client.Get("clouds").spec().stop().labels(), 40);
  EXPECT_EQ(client.Update("clouds", WithLabels(50), {"stop.labels"}, "first").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ApiTest, ABudgetThatIsRaisedDuringTheLastTrainingCounts) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("clouds", 100);
  spec.mutable_stop()->set_labels(6);
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  for (int budget = 12; budget <= 48; budget += 6) {
    CampaignWatch watch(daemon_->port(), "clouds");
    WorkUntilOver(client, "clouds", "ada", 6);
    // The training that would be the last one has begun, and perhaps ended.
    v1::CampaignEvent event;
    while (watch.Next(&event) && event.round_started().round() != budget / 6) {
    }
    ASSERT_TRUE(client.Update("clouds", WithLabels(budget), {"stop.labels"}).ok());
    watch.Leave();
  }
  WorkUntilOver(client, "clouds", "ada");
  const v1::Campaign done = client.Get("clouds");
  EXPECT_EQ(done.state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_EQ(done.labels(), 48);
}

TEST_F(ApiTest, UpdatesApplyToWhatIsNamedAndSurviveARestart) {
  StartDaemon();
  v1::Task last;
  {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 3)).ok());
    ASSERT_TRUE(client.Start("clouds").ok());
    while (client.Get("clouds").round() < 1) {  // the first batch has the old size
    }
    v1::CampaignSpec spec;
    spec.set_question("Which cloud?");
    spec.mutable_selection()->set_batch(4);
    spec.mutable_selection()->set_strategy("random");
    ASSERT_TRUE(client.Update("clouds", spec, {"question", "selection.batch"}).ok());
    last = client.AcquireOne("clouds", "eve");
    EXPECT_EQ(last.question(), "Which cloud?");
  }
  StopDaemon();
  StartDaemon();
  DaemonClient client = Client();
  const v1::CampaignSpec now = client.Get("clouds").spec();
  EXPECT_EQ(now.question(), "Which cloud?");
  EXPECT_EQ(now.selection().batch(), 4);
  EXPECT_EQ(now.selection().strategy(), "dbalevs") << "not in the mask";
  EXPECT_EQ(now.stop().rounds(), 3);
  WorkUntilOver(client, "clouds", "ada", 5);
  EXPECT_EQ(client.SubmitOne("clouds", "eve", last, AnswerTo(last.item_id())), 0);
  WorkUntilOver(client, "clouds", "ada");
  const Batches batches = client.ExportedBatches("clouds");
  EXPECT_THAT(batches.at(1), SizeIs(6));
  EXPECT_THAT(batches.at(2), SizeIs(4)) << "from the next round on";

  const grpc::Status refused = client.Update("clouds", CloudSpec("clouds", 1), {"classes"});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("'classes'"), HasSubstr("selection.batch")));
  v1::CampaignSpec impossible;
  impossible.mutable_labeling()->set_margin(7);
  EXPECT_EQ(client.Update("clouds", impossible, {"labeling.margin"}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Update("clouds", impossible, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Get("clouds").spec().labeling().margin(), 0);
}

TEST_F(ApiTest, AnUpdateAppliesFromTheNextRoundOnWithoutARestart) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  // The classifier is tuned in the second round, so that the third has something to keep.
  WorkUntilOver(client, "clouds", "ada", 6);
  while (client.Get("clouds").round() < 2) {
  }
  v1::CampaignSpec spec;
  spec.mutable_selection()->set_batch(4);
  ASSERT_TRUE(client.Update("clouds", spec, {"selection.batch"}).ok());
  WorkUntilOver(client, "clouds", "ada");
  const Batches batches = client.ExportedBatches("clouds");
  EXPECT_THAT(batches.at(2), SizeIs(6));
  EXPECT_THAT(batches.at(3), SizeIs(4));
  EXPECT_THAT(batches.at(4), SizeIs(4));
}

TEST_F(ApiTest, AWatchIsResumedAfterASequenceNumber) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
  std::int64_t last = 0;
  {
    CampaignWatch watch(daemon_->port(), "clouds");
    v1::CampaignEvent event;
    ASSERT_TRUE(watch.Next(&event));
    ASSERT_TRUE(client.Start("clouds").ok());
    while (!event.has_batch() && watch.Next(&event)) {
      EXPECT_GE(event.sequence(), last);
      last = event.sequence();
    }
    watch.Leave();
  }
  ASSERT_GT(last, 0);
  WorkUntilOver(client, "clouds", "ada");
  CampaignWatch watch(daemon_->port(), "clouds", last);
  std::vector<std::int64_t> batches, models;
  v1::CampaignEvent event;
  while (watch.Next(&event)) {
    EXPECT_GE(event.sequence(), last);
    last = event.sequence();
    if (event.has_batch()) batches.push_back(event.batch().round());
    if (event.has_model()) models.push_back(event.model().round());
  }
  EXPECT_THAT(batches, ElementsAre(2, 3, 4)) << "the first came before";
  EXPECT_THAT(models, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(event.campaign().state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_TRUE(watch.Finish().ok());
}

TEST_F(ApiTest, AWatchIsResumedAcrossARestart) {
  StartDaemon();
  std::int64_t last = 0;
  std::vector<std::string> before;
  const auto note = [](const v1::CampaignEvent& event, std::vector<std::string>& changes) {
    if (event.has_batch()) {
      changes.push_back(absl::StrCat("batch ", event.batch().round(), " with ", event.batch().items()));
    }
    if (event.has_model()) changes.push_back(absl::StrCat("model ", event.model().round()));
    if (event.has_items()) changes.push_back(absl::StrCat("rows ", event.items().added()));
  };
  {
    DaemonClient client = Client();
    v1::CampaignSpec spec = CloudSpec("clouds", 3);
    spec.mutable_pool()->set_sources(0, "named.csv");
    ASSERT_TRUE(client.Create(spec).ok());
    last = client.Get("clouds").sequence();
    CampaignWatch watch(daemon_->port(), "clouds");
    v1::CampaignEvent event;
    ASSERT_TRUE(watch.Next(&event));
    ASSERT_TRUE(client.Start("clouds").ok());
    WorkUntilOver(client, "clouds", "ada", 6);
    while (before.size() < 3 && watch.Next(&event)) note(event, before);
    ASSERT_TRUE(client.Pause("clouds").ok());
    while (event.campaign().state() != v1::CAMPAIGN_STATE_PAUSED && watch.Next(&event)) {
    }
    watch.Leave();
  }
  EXPECT_THAT(before, ElementsAre("batch 1 with 6", "model 2", "batch 2 with 6"));
  StopDaemon();
  StartDaemon();
  CampaignWatch watch(daemon_->port(), "clouds", last);
  std::vector<std::string> after;
  std::vector<v1::CampaignState> states;
  v1::CampaignEvent event;
  while (watch.Next(&event)) {
    EXPECT_GE(event.sequence(), last);
    last = event.sequence();
    note(event, after);
    if (event.has_campaign()) states.push_back(event.campaign().state());
    if (states.size() == 3) break;
  }
  EXPECT_EQ(after, before);
  EXPECT_THAT(states, ElementsAre(v1::CAMPAIGN_STATE_RUNNING, v1::CAMPAIGN_STATE_PAUSED, v1::CAMPAIGN_STATE_PAUSED))
      << "the last one is the state now";
  watch.Leave();
}

TEST_F(ApiTest, ARepeatedRequestToPauseDoesNotPauseAgain) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  const auto pause = [&client] {
    grpc::ClientContext context;
    client.Prepare(context);
    v1::PauseCampaignRequest request;
    request.set_campaign("clouds");
    request.set_request_id("pause-1");
    v1::PauseCampaignResponse response;
    EXPECT_TRUE(client.campaigns().PauseCampaign(&context, request, &response).ok());
    return response.campaign().state();
  };
  EXPECT_EQ(pause(), v1::CAMPAIGN_STATE_PAUSED);
  ASSERT_TRUE(client.Resume("clouds").ok());
  EXPECT_NE(pause(), v1::CAMPAIGN_STATE_PAUSED);
}

TEST_F(ApiTest, DeletingEndsStreamsAndWaitingWorkersAndIsRepeatedById) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  const v1::Task held = client.AcquireOne("clouds", "ada");
  EXPECT_EQ(client.Delete("clouds").error_code(), grpc::StatusCode::FAILED_PRECONDITION) << "it is running";
  ASSERT_TRUE(client.Pause("clouds").ok());

  CampaignWatch watch(daemon_->port(), "clouds");
  v1::CampaignEvent event;
  while (watch.Next(&event) && !event.has_campaign()) {
  }
  grpc::ClientContext work_context;
  client.Prepare(work_context);
  const auto work = client.labeling().Work(&work_context);
  v1::WorkRequest hello;
  hello.mutable_hello()->set_campaign("clouds");
  hello.mutable_hello()->set_annotator("bob");
  hello.mutable_hello()->set_credit(1);
  ASSERT_TRUE(work->Write(hello));
  v1::AcquireTasksResponse tasks;
  std::thread waiting([this, &tasks] { Client().Acquire(TasksWanted("clouds", "eve", 1), &tasks); });

  grpc::ClientContext context;
  client.Prepare(context);
  v1::DeleteCampaignRequest request;
  request.set_campaign("clouds");
  request.set_request_id("delete-1");
  v1::DeleteCampaignResponse response, again;
  const grpc::Status deleted = client.campaigns().DeleteCampaign(&context, request, &response);
  EXPECT_TRUE(deleted.ok()) << deleted.error_message();
  waiting.join();
  v1::WorkResponse message;
  while (work->Read(&message)) {
  }
  EXPECT_FALSE(work->Finish().ok());
  while (watch.Next(&event)) {
  }
  EXPECT_EQ(watch.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(std::filesystem::exists(response.trash_folder() + "/campaign.db"));
  grpc::ClientContext again_context;
  client.Prepare(again_context);
  EXPECT_TRUE(client.campaigns().DeleteCampaign(&again_context, request, &again).ok());
  EXPECT_EQ(again.trash_folder(), response.trash_folder());
  EXPECT_EQ(client.Delete("clouds").error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace fulcrum::testing
