// Campaigns from creation to their end, over gRPC.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/http_get.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using CampaignLifeTest = DaemonTest;

TEST_F(CampaignLifeTest, RunsItsRoundsAndEnds) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_CREATED);
  ASSERT_TRUE(client.Start("clouds").ok());
  const std::set<std::int64_t> acknowledged = WorkUntilOver(client, "clouds", "ada");
  EXPECT_THAT(acknowledged, SizeIs(24));
  const v1::Campaign campaign = client.Get("clouds");
  EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_THAT(campaign.state_reason(), HasSubstr("round limit reached (4 of 4)"));
  EXPECT_EQ(campaign.labels(), 24);
  const Batches batches = client.ExportedBatches("clouds");
  ASSERT_THAT(batches, SizeIs(4));
  std::set<std::string> all;
  for (const auto& [round, items] : batches) {
    EXPECT_THAT(items, SizeIs(6)) << "round " << round;
    all.insert(items.begin(), items.end());
  }
  EXPECT_THAT(all, SizeIs(24)) << "an example was asked for twice";
}

TEST_F(CampaignLifeTest, ARestartInTheMiddleChangesNoBatch) {
  StartDaemon();
  DaemonClient client = Client();
  for (const char* name : {"whole", "broken"}) {
    ASSERT_TRUE(client.Create(CloudSpec(name, 4)).ok());
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "whole", "ada");
  WorkUntilOver(client, "broken", "ada", 14);
  StopDaemon();
  StartDaemon();
  DaemonClient again = Client();
  EXPECT_EQ(again.Get("whole").state(), v1::CAMPAIGN_STATE_DONE);
  WorkUntilOver(again, "broken", "ada");
  EXPECT_EQ(again.ExportedBatches("broken"), again.ExportedBatches("whole"));
}

TEST_F(CampaignLifeTest, SeveralWorkersGetDifferentTasksAndTheSameBatches) {
  StartDaemon();
  DaemonClient client = Client();
  for (const char* name : {"alone", "together"}) {
    ASSERT_TRUE(client.Create(CloudSpec(name, 4)).ok());
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "alone", "ada");
  std::vector<std::future<std::set<std::int64_t>>> workers;
  for (int i = 0; i < 5; ++i) {
    workers.push_back(std::async(std::launch::async, [this, i] {
      DaemonClient own = Client();
      return WorkUntilOver(own, "together", absl::StrCat("worker-", i));
    }));
  }
  std::set<std::int64_t> acknowledged;
  for (auto& worker : workers) acknowledged.merge(worker.get());
  EXPECT_THAT(acknowledged, SizeIs(24));
  EXPECT_EQ(client.ExportedBatches("together"), client.ExportedBatches("alone"));
}

TEST_F(CampaignLifeTest, PausedCampaignsOfferNothingAndTakeLabels) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  WorkUntilOver(client, "clouds", "ada", 2);
  const v1::Task task = client.AcquireOne("clouds", "ada");

  ASSERT_TRUE(client.Pause("clouds").ok());
  v1::AcquireTasksRequest acquire = TasksWanted("clouds", "ada", 1);
  acquire.clear_wait();
  v1::AcquireTasksResponse none;
  ASSERT_TRUE(client.Acquire(acquire, &none).ok());
  EXPECT_EQ(none.tasks_size(), 0);
  EXPECT_FALSE(none.campaign_over());

  EXPECT_EQ(client.SubmitOne("clouds", "ada", task, "pos"), 0);
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_PAUSED);
  ASSERT_TRUE(client.Resume("clouds").ok());
  WorkUntilOver(client, "clouds", "ada");
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
}

TEST_F(CampaignLifeTest, WatchTellsWhatHappensUntilTheEnd) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
  grpc::ClientContext context;
  client.Prepare(context);
  v1::WatchCampaignRequest request;
  request.set_campaign("clouds");
  const auto stream = client.campaigns().WatchCampaign(&context, request);
  v1::WatchCampaignResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.event().campaign().state(), v1::CAMPAIGN_STATE_CREATED);
  ASSERT_TRUE(client.Start("clouds").ok());
  std::thread worker([this] {
    DaemonClient own = Client();
    WorkUntilOver(own, "clouds", "ada");
  });
  std::map<int, int> seen;
  while (stream->Read(&response)) ++seen[response.event().event_case()];
  worker.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(seen[v1::CampaignEvent::kBatch], 2);
  EXPECT_EQ(seen[v1::CampaignEvent::kModel], 2) << "one for the second batch, one at the end";
  EXPECT_GE(seen[v1::CampaignEvent::kLabels], 2);
  EXPECT_EQ(response.event().campaign().state(), v1::CAMPAIGN_STATE_DONE);

  // A later watcher receives the existing models, and then the current state.
  grpc::ClientContext late_context;
  client.Prepare(late_context);
  const auto late = client.campaigns().WatchCampaign(&late_context, request);
  std::vector<int> told;
  while (late->Read(&response)) told.push_back(response.event().event_case());
  EXPECT_TRUE(late->Finish().ok());
  EXPECT_THAT(
      told, ::testing::ElementsAre(v1::CampaignEvent::kModel, v1::CampaignEvent::kModel, v1::CampaignEvent::kCampaign));
}

TEST_F(CampaignLifeTest, TwoDaemonsCannotHaveOneFolder) {
  StartDaemon();
  const auto second = pipeline::Daemon::Start(Options());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another daemon has the data folder"));
}

TEST_F(CampaignLifeTest, DeletingMovesItToTheTrash) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_EQ(client.Delete("clouds").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(client.Stop("clouds").ok());
  ASSERT_TRUE(client.Delete("clouds").ok());
  EXPECT_EQ(client.Start("clouds").error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok()) << "the name is free again";
}

TEST_F(CampaignLifeTest, ANameCanBeDeletedSeveralTimesWithinASecond) {
  StartDaemon();
  DaemonClient client = Client();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok()) << i;
    ASSERT_TRUE(client.Delete("clouds").ok()) << i;
  }
  const std::filesystem::directory_iterator trash(folder_.File("data/trash"));
  EXPECT_EQ(std::distance(begin(trash), end(trash)), 5) << "a deleted campaign is missing in the trash";
}

TEST_F(CampaignLifeTest, ABrokenCampaignIsListedAndOpensWhenItCan) {
  StartDaemon();
  ASSERT_TRUE(Client().Create(CloudSpec("clouds", 2)).ok());
  ASSERT_TRUE(Client().Create(CloudSpec("lost", 2)).ok());
  StopDaemon();
  for (const char* name : {"clouds", "lost"}) {
    const std::string database = folder_.File(absl::StrCat("data/campaigns/", name, "/campaign.db"));
    std::filesystem::rename(database, database + "-away");
  }
  pipeline::DaemonOptions options = Options();
  options.reopen_time = std::chrono::milliseconds(50);
  options.watch.address = "127.0.0.1:0";
  StartDaemon(options);
  DaemonClient client = Client();
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_BROKEN);
  EXPECT_THAT(client.Get("clouds").state_reason(), HasSubstr("campaign.db"));
  grpc::ClientContext context;
  client.Prepare(context);
  v1::ListCampaignsResponse list;
  ASSERT_TRUE(client.campaigns().ListCampaigns(&context, {}, &list).ok());
  ASSERT_EQ(list.campaigns_size(), 2);
  EXPECT_EQ(list.campaigns(0).state(), v1::CAMPAIGN_STATE_BROKEN);
  EXPECT_THAT(
      HttpGet(daemon_->watch_port(), "/readyz"),
      AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("2 broken campaigns"), HasSubstr("'clouds' cannot be opened")));

  EXPECT_TRUE(client.Delete("lost").ok()) << "a broken campaign can be deleted";
  ASSERT_TRUE(client.Create(CloudSpec("lost", 2)).ok()) << "and its name used again";
  const std::string database = folder_.File("data/campaigns/clouds/campaign.db");
  std::filesystem::rename(database + "-away", database);
  while (client.Get("clouds").state() == v1::CAMPAIGN_STATE_BROKEN) {
  }
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(12));
}

TEST_F(CampaignLifeTest, ALabelBudgetThatEndsInsideARoundEndsTheCampaign) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("clouds", 0);
  spec.mutable_selection()->set_batch(5);
  spec.mutable_stop()->set_labels(12);
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(12));
  const v1::Campaign campaign = client.Get("clouds");
  EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_THAT(campaign.state_reason(), HasSubstr("label budget reached (12 of"));
  EXPECT_EQ(campaign.open_tasks(), 0) << "the unanswered items are back in the pool";
  EXPECT_EQ(client.Models("clouds").back().labels(), 12) << "the last model knows all labels";
}

TEST_F(CampaignLifeTest, ACostBudgetThatPaysForNoOtherTaskEndsTheCampaign) {
  std::string text = "id,price,f0,f1\n";
  for (int row = 0; row < 60; ++row) {
    absl::StrAppend(&text, "x", row, ",0.75,", row % 2 == 0 ? -1 - row : 1 + row, ",", row % 7, "\n");
  }
  folder_.Write("pools/priced.csv", text);
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("priced", 0);
  spec.mutable_pool()->set_sources(0, "priced.csv");
  spec.mutable_pool()->set_cost_column("price");
  spec.mutable_selection()->set_batch(5);
  // For 1 and 5 labels: the budget ends in the first round, and right after it.
  for (const double budget : {1.0, 4.0}) {
    spec.set_name(budget < 2 ? "one" : "five");
    spec.mutable_stop()->set_cost(budget);
    ASSERT_TRUE(client.Create(spec).ok());
    ASSERT_TRUE(client.Start(spec.name()).ok());
    EXPECT_THAT(WorkUntilOver(client, spec.name(), "ada"), SizeIs(budget < 2 ? 1 : 5));
    const v1::Campaign campaign = client.Get(spec.name());
    EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_DONE);
    EXPECT_THAT(campaign.state_reason(), HasSubstr("the remaining 0.25 of the cost budget")) << campaign.state_reason();
  }
}

TEST_F(CampaignLifeTest, ABudgetThatPaysForNoAnswerOfAnAnnotatorEndsTheCampaign) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("clouds", 0);
  spec.mutable_selection()->set_batch(5);
  spec.mutable_stop()->set_cost(10);
  v1::AnnotatorTerms& terms = *spec.mutable_labeling()->add_annotators();
  terms.set_name("ada");
  terms.set_cost(3);
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(3));
  const v1::Campaign campaign = client.Get("clouds");
  EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_THAT(campaign.state_reason(), HasSubstr("the remaining 1 of the cost budget of 10"));
}

TEST_F(CampaignLifeTest, ABudgetForCheaperAnnotatorsDoesNotEndTheCampaign) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("clouds", 0);
  spec.mutable_selection()->set_batch(5);
  spec.mutable_stop()->set_cost(10);
  for (const auto& [name, cost] : {std::pair("ada", 3), std::pair("bob", 1)}) {
    v1::AnnotatorTerms& terms = *spec.mutable_labeling()->add_annotators();
    terms.set_name(name);
    terms.set_cost(cost);
  }
  ASSERT_TRUE(client.Create(spec).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada", 3), SizeIs(3));
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_WAITING) << "bob can still answer";
  EXPECT_THAT(WorkUntilOver(client, "clouds", "bob"), SizeIs(1));
  EXPECT_THAT(client.Get("clouds").state_reason(), HasSubstr("10"));
}

TEST_F(CampaignLifeTest, AColumnNamedCostIsNotAFeatureUnlessItIsNamedAsOne) {
  std::string text = "id,cost,f0,f1\n";
  for (int row = 0; row < 20; ++row) absl::StrAppend(&text, "x", row, ",0.5,", row % 2, ",", row % 7, "\n");
  folder_.Write("pools/priced.csv", text);
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("priced", 2);
  spec.mutable_pool()->set_sources(0, "priced.csv");
  const grpc::Status undeclared = client.Create(spec);
  EXPECT_FALSE(undeclared.ok());
  EXPECT_THAT(undeclared.error_message(), HasSubstr("the column 'cost' would be a feature"));
  spec.mutable_pool()->set_cost_column("cost");
  EXPECT_TRUE(client.Create(spec).ok());
  EXPECT_TRUE(client.Start("priced").ok());
  const auto labels = static_cast<double>(WorkUntilOver(client, "priced", "ada", 1).size());
  EXPECT_DOUBLE_EQ(client.Get("priced").cost(), 0.5 * labels);
}

TEST_F(CampaignLifeTest, BadSpecificationsAreRefusedWithAllThatIsWrong) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("Not/A/Name", 2);
  spec.mutable_classes()->RemoveLast();
  spec.mutable_selection()->set_tau(2);
  spec.mutable_selection()->set_strategy("guess");
  const grpc::Status status = client.Create(spec);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("name: "), HasSubstr("classes: "), HasSubstr("selection.tau: "),
                                            HasSubstr("selection.strategy: ")));
}

TEST_F(CampaignLifeTest, PayloadsReachTheWorkerAsTheyAreAndCostsEndTheCampaign) {
  std::string text = "id,price,text,f0,f1\n";
  for (int row = 0; row < 60; ++row) {
    absl::StrAppend(&text, "x", row, ",0.5,\" {\"\"row\"\": ", row, "} \",", row % 2 == 0 ? -1 - row : 1 + row, ",",
                    row % 7, "\n");
  }
  folder_.Write("pools/texts.csv", text);
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = CloudSpec("texts", 0);
  spec.mutable_pool()->set_sources(0, "texts.csv");
  spec.mutable_pool()->set_payload_column("text");
  spec.mutable_pool()->set_cost_column("price");
  spec.mutable_selection()->set_batch(4);
  spec.mutable_stop()->set_cost(4);
  const grpc::Status created = client.Create(spec);
  ASSERT_TRUE(created.ok()) << created.error_message();
  ASSERT_TRUE(client.Start("texts").ok());
  const v1::Task task = client.AcquireOne("texts", "eve");
  EXPECT_EQ(task.payload(), absl::StrCat(" {\"row\": ", task.item_id().substr(1), "} "));
  EXPECT_EQ(client.SubmitOne("texts", "eve", task, "pos"), 0);
  WorkUntilOver(client, "texts", "ada");
  const v1::Campaign campaign = client.Get("texts");
  EXPECT_THAT(campaign.state_reason(), HasSubstr("cost budget reached (4 of"));
  EXPECT_EQ(campaign.labels(), 8);
}

TEST_F(CampaignLifeTest, PoolsOutsideTheFolderOfPoolsAreNotRead) {
  StartDaemon();
  DaemonClient client = Client();
  for (const char* source : {"../pools/../data/campaigns", "/etc/passwd", "../../etc/passwd"}) {
    v1::CampaignSpec spec = CloudSpec("clouds", 2);
    spec.mutable_pool()->set_sources(0, source);
    const grpc::Status status = client.Create(spec);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << source;
    EXPECT_THAT(status.error_message(), HasSubstr("is not inside"));
  }
  for (const char* source : {"s3://bucket/pool.parquet", "https://example.org/pool.csv"}) {
    v1::CampaignSpec spec = CloudSpec("clouds", 2);
    spec.mutable_pool()->set_sources(0, source);
    const grpc::Status status = client.Create(spec);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << source;
    EXPECT_THAT(status.error_message(), HasSubstr("only paths and file:// URIs")) << source;
  }
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  spec.mutable_pool()->set_sources(0, absl::StrCat("file://", folder_.File("pools/clouds.csv")));
  EXPECT_TRUE(client.Create(spec).ok());
}

TEST_F(CampaignLifeTest, AChangeOfTheStateHasAReasonAndWhoMadeIt) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  const auto pause = [&](const std::string& reason) {
    grpc::ClientContext context;
    client.Prepare(context);
    v1::PauseCampaignRequest request;
    request.set_campaign("clouds");
    request.set_request_id(NewRequestId());
    request.set_reason(reason);
    v1::PauseCampaignResponse response;
    return client.campaigns().PauseCampaign(&context, request, &response);
  };
  EXPECT_EQ(pause(std::string(2001, 'x')).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(client.Get("clouds").state(), v1::CAMPAIGN_STATE_PAUSED);
  ASSERT_TRUE(pause("the guidelines are revised").ok());
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon();
    }
    const v1::Campaign campaign = Client().Get("clouds");
    EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_PAUSED);
    EXPECT_EQ(campaign.state_reason(), "the guidelines are revised");
    EXPECT_EQ(campaign.state_by(), "admin");
  }
}

TEST_F(CampaignLifeTest, StopsInEveryStageOfARound) {
  // The first of them is the begin of a round, in which the settings of the classifier are chosen.
  const std::vector<v1::Stage> stages = {v1::STAGE_UNSPECIFIED, v1::STAGE_TRAIN, v1::STAGE_PREDICT,
                                         v1::STAGE_PARTITION,   v1::STAGE_SCORE, v1::STAGE_SELECT,
                                         v1::STAGE_COMMIT};
  const auto name_of = [](v1::Stage stage) { return absl::StrCat("stop-", static_cast<int>(stage)); };
  StartDaemon();
  std::map<v1::Stage, v1::Campaign> stopped;
  for (const v1::Stage stage : stages) {
    DaemonClient client = Client();
    const std::string name = name_of(stage);
    ASSERT_TRUE(client.Create(CloudSpec(name, 100)).ok());
    ASSERT_TRUE(client.Start(name).ok());
    WorkUntilOver(client, name, "ada", 12);  // two rounds, so that the third one has every stage
    CampaignWatch watch(daemon_->port(), name);
    v1::CampaignEvent event;
    const auto reached = [&] {
      if (event.has_round_started()) return stage == v1::STAGE_UNSPECIFIED && event.round_started().round() > 2;
      return event.has_stage() && stage != v1::STAGE_UNSPECIFIED && event.stage().stage() == stage;
    };
    std::jthread worker([&] { WorkUntilOver(client, name, "ada"); });
    while (!reached() && watch.Next(&event)) {
    }
    EXPECT_TRUE(reached()) << v1::Stage_Name(stage);
    DaemonClient admin = Client();
    ASSERT_TRUE(admin.Stop(name).ok());
    stopped[stage] = admin.Get(name);
    EXPECT_EQ(stopped[stage].state(), v1::CAMPAIGN_STATE_DONE);
    worker.join();
    watch.Leave();
  }
  // Whatever the rounds were about to do, they have ended with the daemon.
  StopDaemon();
  StartDaemon();
  for (const auto& [stage, before] : stopped) {
    DaemonClient client = Client();
    const v1::Campaign after = client.Get(before.name());
    EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_DONE) << v1::Stage_Name(stage);
    EXPECT_EQ(after.state_reason(), "it was stopped") << v1::Stage_Name(stage);
    EXPECT_EQ(after.round(), before.round()) << "a batch after the end, " << v1::Stage_Name(stage);
    EXPECT_TRUE(client.Delete(before.name()).ok());
  }
}

}  // namespace
}  // namespace fulcrum::testing
