// Campaigns never wait without saying for what: voting without annotators, failures, and examples one by one.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NeverStuckTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(Client());
  }
  static v1::CampaignSpec VotingSpec(int classes) {
    v1::CampaignSpec spec = CloudSpec("votes", 2);
    spec.mutable_selection()->set_batch(1);
    spec.mutable_labeling()->set_overlap(2);
    for (int i = 2; i < classes; ++i) spec.add_classes(absl::StrCat("class-", i));
    return spec;
  }
  void CreateAndStart(const v1::CampaignSpec& spec) {
    const grpc::Status created = client_->Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client_->Start(spec.name()).ok());
  }
  std::string Vote(const std::string& campaign, const std::string& annotator, const std::string& value) {
    const v1::Task task = client_->AcquireOne(campaign, annotator);
    EXPECT_EQ(client_->SubmitOne(campaign, annotator, task, value), 0);
    return task.item_id();
  }
  v1::ListItemsResponse List(const std::string& campaign, v1::ItemState state, int page_size = 0,
                             const std::string& token = "") {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::ListItemsRequest request;
    request.set_campaign(campaign);
    request.set_state(state);
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1::ListItemsResponse response;
    const grpc::Status status = client_->items().ListItems(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::GetItemResponse Item(const std::string& campaign, const std::string& item) {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::GetItemRequest request;
    request.set_campaign(campaign);
    request.set_item_id(item);
    v1::GetItemResponse response;
    const grpc::Status status = client_->items().GetItem(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Resolve(const std::string& campaign, const std::string& item, const std::string& value) {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::ResolveItemRequest request;
    request.set_campaign(campaign);
    request.set_item_id(item);
    request.set_value(value);
    request.set_reason("looked at it");
    v1::ResolveItemResponse response;
    return client_->items().ResolveItem(&context, request, &response);
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(NeverStuckTest, AnItemIsDisputedWhenEveryAnnotatorHasAnswered) {
  v1::CampaignSpec spec = VotingSpec(3);
  spec.mutable_labeling()->set_most_votes(4);
  CreateAndStart(spec);
  const std::string item = Vote("votes", "ada", "neg");
  const v1::Campaign waiting = client_->Get("votes");
  ASSERT_THAT(waiting.waiting_for(), SizeIs(1));
  EXPECT_EQ(waiting.waiting_for(0).kind(), v1::WaitingFor::KIND_ANOTHER_ANNOTATOR);
  EXPECT_THAT(waiting.waiting_for(0).text(),
              HasSubstr(absl::StrCat("item '", item, "' (it has 1 votes) needs another")));
  EXPECT_EQ(Vote("votes", "bob", "pos"), item);
  // Both known annotators have answered; the round goes on.
  v1::Campaign campaign = client_->Get("votes");
  while (campaign.items().disputed() == 0) campaign = client_->Get("votes");
  const std::string next = client_->AcquireOne("votes", "cid").item_id();
  EXPECT_NE(next, item);
  const v1::ListItemsResponse disputed = List("votes", v1::ITEM_STATE_DISPUTED);
  ASSERT_THAT(disputed.items(), SizeIs(1));
  EXPECT_EQ(disputed.items(0).item_id(), item);
  EXPECT_THAT(disputed.items(0).reason(), HasSubstr("every annotator has answered or skipped it"));
  EXPECT_THAT(disputed.items(0).votes(), SizeIs(2));
  EXPECT_DOUBLE_EQ(disputed.items(0).agreement(), 0.5);

  EXPECT_EQ(Resolve("votes", item, "purple").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Resolve("votes", item, "pos").ok());
  campaign = client_->Get("votes");
  EXPECT_EQ(campaign.items().disputed(), 0);
  EXPECT_EQ(campaign.items().labeled(), 1);
  const v1::ExportedLabel last = client_->Export("votes").back();
  EXPECT_EQ(last.kind(), v1::LABEL_KIND_RESOLUTION);
  EXPECT_EQ(last.decision(), "pos");
}

TEST_F(NeverStuckTest, TimeEndsTheWaitForAnAnnotatorWhoDoesNotCome) {
  v1::CampaignSpec spec = VotingSpec(2);
  spec.mutable_labeling()->mutable_dispute_time()->set_seconds(1);
  CreateAndStart(spec);
  const std::string item = Vote("votes", "ada", "neg");
  EXPECT_NE(client_->AcquireOne("votes", "ada").item_id(), item) << "the next round came without a second vote";
  EXPECT_EQ(client_->Get("votes").items().disputed(), 1);
}

TEST_F(NeverStuckTest, AReturnedItemIsOfferedAgain) {
  CreateAndStart(CloudSpec("clouds", 4));
  const v1::Task task = client_->AcquireOne("clouds", "ada");
  v1::SkipTasksRequest skip;
  skip.set_campaign("clouds");
  skip.set_annotator("ada");
  skip.set_request_id("k1");
  skip.add_skips()->mutable_lease()->set_lease_id(task.lease_id());
  skip.mutable_skips(0)->mutable_lease()->set_epoch(task.epoch());
  skip.mutable_skips(0)->set_reason(v1::SKIP_REASON_BAD_ITEM);
  grpc::ClientContext context;
  client_->Prepare(context);
  v1::SkipTasksResponse skipped;
  ASSERT_TRUE(client_->labeling().SkipTasks(&context, skip, &skipped).ok());
  EXPECT_EQ(client_->Get("clouds").items().set_aside(), 1);
  grpc::ClientContext return_context;
  client_->Prepare(return_context);
  v1::ReturnItemRequest request;
  request.set_campaign("clouds");
  request.set_item_id(task.item_id());
  v1::ReturnItemResponse response;
  ASSERT_TRUE(client_->items().ReturnItem(&return_context, request, &response).ok());
  EXPECT_EQ(response.item().state(), v1::ITEM_STATE_OPEN);
  EXPECT_THAT(response.item().declined_by(), IsEmpty());
  EXPECT_EQ(client_->AcquireOne("clouds", "ada").item_id(), task.item_id());
}

TEST_F(NeverStuckTest, ItemsAreListedByStateInPagesAndCounted) {
  CreateAndStart(CloudSpec("clouds", 3));
  WorkUntilOver(*client_, "clouds", "ada", 12);
  const v1::Task held = client_->AcquireOne("clouds", "bob");
  const v1::Campaign campaign = client_->Get("clouds");
  EXPECT_EQ(campaign.items().labeled(), 12);
  EXPECT_EQ(campaign.items().leased(), 1);
  EXPECT_EQ(campaign.items().open(), 5);
  EXPECT_EQ(campaign.items().unlabeled(), 200 - 18);
  EXPECT_THAT(List("clouds", v1::ITEM_STATE_LEASED).items(), SizeIs(1));
  EXPECT_EQ(List("clouds", v1::ITEM_STATE_LEASED).items(0).item_id(), held.item_id());
  EXPECT_THAT(List("clouds", v1::ITEM_STATE_OPEN).items(), SizeIs(5));

  std::set<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const v1::ListItemsResponse page = List("clouds", v1::ITEM_STATE_LABELED, 5, token);
    EXPECT_EQ(page.total_size(), 12);
    for (const v1::Item& item : page.items()) {
      EXPECT_TRUE(seen.insert(item.item_id()).second) << item.item_id();
      EXPECT_EQ(item.label(), AnswerTo(item.item_id()));
      EXPECT_THAT(item.prediction(), ::testing::AnyOf("neg", "pos"));
    }
    token = page.next_page_token();
    ++pages;
  } while (!token.empty());
  EXPECT_THAT(seen, SizeIs(12));
  EXPECT_EQ(pages, 3);

  seen.clear();
  do {
    const v1::ListItemsResponse page = List("clouds", v1::ITEM_STATE_UNLABELED, 100, token);
    for (const v1::Item& item : page.items()) seen.insert(item.item_id());
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_THAT(seen, SizeIs(182));
  EXPECT_FALSE(seen.contains(held.item_id()));
}

TEST_F(NeverStuckTest, AnItemSaysWhyItWasSelectedAndWhatHappened) {
  CreateAndStart(CloudSpec("clouds", 3));
  WorkUntilOver(*client_, "clouds", "ada", 6);
  const v1::Task task = client_->AcquireOne("clouds", "ada");
  EXPECT_EQ(client_->SubmitOne("clouds", "ada", task, AnswerTo(task.item_id())), 0);
  const v1::GetItemResponse item = Item("clouds", task.item_id());
  EXPECT_EQ(item.item().state(), v1::ITEM_STATE_LABELED);
  std::vector<v1::ItemEventKind> kinds;
  for (const v1::ItemEvent& event : item.history()) kinds.push_back(event.kind());
  EXPECT_THAT(kinds, ElementsAre(v1::ITEM_EVENT_KIND_ITEM_BATCHED, v1::ITEM_EVENT_KIND_LEASE_GRANTED,
                                 v1::ITEM_EVENT_KIND_LABEL_SUBMITTED));
  EXPECT_EQ(item.history(2).annotator(), "ada");
  const v1::ItemSelection& selection = item.selection();
  EXPECT_EQ(selection.round(), 2);
  EXPECT_GE(selection.rank(), 1);
  EXPECT_EQ(selection.strategy(), "dbalevs");
  EXPECT_GT(selection.leverage(), 0);
  EXPECT_GE(selection.rank_in_class(), 1);
  EXPECT_GE(selection.class_size(), selection.rank_in_class());
  EXPECT_GE(selection.uncertainty(), 0);
  EXPECT_LE(selection.uncertainty(), 1);
  ASSERT_THAT(selection.nearest_labeled(), SizeIs(3));
  EXPECT_LE(selection.nearest_labeled(0).distance(), selection.nearest_labeled(1).distance());
  for (const v1::NearestItem& near : selection.nearest_labeled()) EXPECT_EQ(near.label(), AnswerTo(near.item_id()));
}

TEST_F(NeverStuckTest, AFailedCampaignIsStartedAgainWhenTheCauseIsGone) {
  CreateAndStart(CloudSpec("clouds", 3));
  for (int i = 0; i < 5; ++i) {
    const v1::Task task = client_->AcquireOne("clouds", "ada");
    ASSERT_EQ(client_->SubmitOne("clouds", "ada", task, AnswerTo(task.item_id())), 0);
  }
  // The predictions of the last round are needed for the next one after a restart; without them it cannot go on.
  StopDaemon();
  const std::string scores = folder_.File("data/campaigns/clouds/rounds/000001-scores.parquet");
  std::filesystem::rename(scores, scores + ".away");
  StartDaemon();
  client_ = std::make_unique<DaemonClient>(Client());
  v1::AcquireTasksResponse last;
  while (last.tasks().empty()) ASSERT_TRUE(client_->Acquire(TasksWanted("clouds", "ada", 1), &last).ok());
  EXPECT_EQ(client_->SubmitOne("clouds", "ada", last.tasks(0), AnswerTo(last.tasks(0).item_id())), 0);
  v1::Campaign campaign = client_->Get("clouds");
  while (campaign.state() != v1::CAMPAIGN_STATE_FAILED) campaign = client_->Get("clouds");
  EXPECT_THAT(campaign.state_reason(), HasSubstr("000001-scores.parquet"));
  ASSERT_THAT(campaign.waiting_for(), SizeIs(1));
  EXPECT_EQ(campaign.waiting_for(0).kind(), v1::WaitingFor::KIND_ADMINISTRATOR);

  std::filesystem::rename(scores + ".away", scores);
  ASSERT_TRUE(client_->Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(*client_, "clouds", "ada"), SizeIs(12));
  EXPECT_EQ(client_->Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
}

TEST_F(NeverStuckTest, ALabelThatIsChangedAfterTheEndIsTrainedOn) {
  CreateAndStart(CloudSpec("clouds", 2));
  WorkUntilOver(*client_, "clouds", "ada");
  const std::vector<v1::ModelTrained> before = client_->Models("clouds");
  const std::string item = client_->Export("clouds").front().item_id();
  const double decision = client_->Decisions("clouds", {item})[0];
  v1::ChangeLabelsRequest change;
  change.set_campaign("clouds");
  change.set_annotator("ada");
  change.set_request_id("c1");
  change.add_changes()->set_item_id(item);
  change.mutable_changes(0)->set_value(AnswerTo(item) == "pos" ? "neg" : "pos");
  v1::ChangeLabelsResponse changed;
  ASSERT_TRUE(client_->Change(change, &changed).ok());
  while (client_->Models("clouds").size() == before.size() && client_->Decisions("clouds", {item})[0] == decision) {
  }
  EXPECT_NE(client_->Decisions("clouds", {item})[0], decision);
  EXPECT_EQ(client_->Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_EQ(client_->Get("clouds").round(), 2) << "no batch was selected";
}

}  // namespace
}  // namespace fulcrum::testing
