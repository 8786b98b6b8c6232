// Rows that arrive one at a time: decided within the budget, durable, tasks at once, and the same after a kill.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/daemon/support/raw_connections.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kPoolRows = 200;
constexpr char kName[] = "stream";

/// What was answered to a row.
using Answered = std::tuple<std::string, v1::OfferDecision, double, double>;

class OfferTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    const std::vector<std::string> lines = absl::StrSplit(NamedCloudsText(kPoolRows + 4000), '\n', absl::SkipEmpty());
    for (std::size_t i = 1 + kPoolRows; i < lines.size(); ++i) {
      const std::vector<std::string> cells = absl::StrSplit(lines[i], ',');
      v1::OfferedItem& item = rows_.emplace_back();
      item.set_item_id(cells[0]);
      item.set_payload("text of " + cells[0]);
      for (std::size_t cell = 1; cell < cells.size(); ++cell) {
        double value = 0;
        ASSERT_TRUE(absl::SimpleAtod(cells[cell], &value));
        item.mutable_features()->add_values(value);
      }
    }
  }

  static v1::CampaignSpec Spec(const std::string& name = kName, double share = 0.05) {
    v1::CampaignSpec spec = CloudSpec(name, 50);
    spec.mutable_pool()->set_sources(0, "named.csv");
    spec.mutable_selection()->mutable_stream()->set_share(share);
    return spec;
  }
  /// Creates and starts a campaign, and waits for its first batch.
  static void Run(DaemonClient& client, const v1::CampaignSpec& spec) {
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(spec.name()).ok());
    WorkUntilOver(client, spec.name(), "starter", 2);
  }

  v1::OfferItemsRequest Message(std::size_t first, std::size_t count, const std::string& id = "") const {
    v1::OfferItemsRequest request;
    request.set_campaign(kName);
    request.set_request_id(id.empty() ? absl::StrCat("rows ", first) : id);
    for (std::size_t i = first; i < first + count; ++i) *request.add_items() = rows_[i];
    return request;
  }

  static void WaitForRound(DaemonClient& client, const std::string& campaign, std::int64_t round) {
    while (client.Get(campaign).round() < round) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  /// Sends one message on a stream of its own.
  static grpc::Status TryOffer(DaemonClient& client, const v1::OfferItemsRequest& request,
                               v1::OfferItemsResponse* response) {
    grpc::ClientContext context;
    client.Prepare(context);
    const auto stream = client.campaigns().OfferItems(&context);
    stream->Write(request);
    stream->WritesDone();
    stream->Read(response);
    return stream->Finish();
  }
  static std::vector<Answered> Offer(DaemonClient& client, const v1::OfferItemsRequest& request) {
    v1::OfferItemsResponse response;
    const grpc::Status status = TryOffer(client, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.request_id(), request.request_id());
    std::vector<Answered> answers;
    for (const v1::OfferAnswer& answer : response.answers()) {
      answers.emplace_back(answer.item_id(), answer.decision(), answer.score(), answer.threshold());
    }
    return answers;
  }
  static std::set<std::string> Taken(const std::vector<Answered>& answers) {
    std::set<std::string> taken;
    for (const Answered& answer : answers) {
      if (std::get<1>(answer) == v1::OFFER_DECISION_LABEL) taken.insert(std::get<0>(answer));
    }
    return taken;
  }
  grpc::StatusCode CodeOf(DaemonClient& client, const v1::OfferItemsRequest& request) {
    v1::OfferItemsResponse response;
    const grpc::Status status = TryOffer(client, request, &response);
    message_ = status.error_message();
    return status.error_code();
  }

  std::vector<v1::OfferedItem> rows_;
  std::string message_;  // of the last CodeOf
};

TEST_F(OfferTest, TakenRowsAreTasksAtOnceAndRepeatsGetTheirAnswers) {
  StartDaemon();
  DaemonClient client = Client();
  Run(client, Spec());
  const std::vector<Answered> answers = Offer(client, Message(0, 400));
  ASSERT_THAT(answers, SizeIs(400));
  const std::set<std::string> taken = Taken(answers);
  const auto count = static_cast<std::int64_t>(taken.size());
  EXPECT_THAT(count, AllOf(Ge(19), Le(20))) << "5 percent";
  EXPECT_EQ(Offer(client, Message(0, 400)), answers) << "a repeat";
  EXPECT_EQ(CodeOf(client, Message(1, 400, "rows 0")), grpc::StatusCode::ALREADY_EXISTS);
  const v1::Campaign campaign = client.Get(kName);
  EXPECT_EQ(campaign.stream().rows(), 400);
  EXPECT_EQ(campaign.stream().taken(), count);
  EXPECT_EQ(campaign.stream().waiting_rows(), count);
  EXPECT_EQ(campaign.pool_rows(), kPoolRows + count);
  EXPECT_EQ(campaign.round_items(), 6 + count);
  EXPECT_EQ(campaign.open_tasks(), 4 + count);

  // The same names again, under another id: those that were taken are examples, the others are decided anew.
  std::int64_t existing = 0;
  for (const Answered& answer : Offer(client, Message(0, 400, "again"))) {
    const bool known = std::get<1>(answer) == v1::OFFER_DECISION_EXISTING;
    EXPECT_EQ(known, taken.contains(std::get<0>(answer)));
    existing += known ? 1 : 0;
  }
  EXPECT_EQ(existing, count);

  // A round ends with as many answers as its batch has items. Open items of the stream come first in the next.
  WorkUntilOver(client, kName, "ada", 4);
  WaitForRound(client, kName, 2);
  const v1::Task task = client.AcquireOne(kName, "ada");
  EXPECT_THAT(taken, Contains(task.item_id()));
  EXPECT_EQ(task.payload(), "text of " + task.item_id());
  const v1::Campaign next = client.Get(kName);
  EXPECT_EQ(next.round(), 2);
  EXPECT_EQ(next.stream().waiting_rows(), 0) << "they are in files of the pool now";
  EXPECT_EQ(next.pool_rows(), kPoolRows + next.stream().taken());
  EXPECT_EQ(client.SubmitOne(kName, "ada", task, AnswerTo(task.item_id())), 0);
  WorkUntilOver(client, kName, "ada", 60);
  std::set<std::string> labeled;
  for (const v1::ExportedLabel& label : client.Export(kName)) labeled.insert(label.item_id());
  EXPECT_TRUE(std::ranges::includes(labeled, taken));
  EXPECT_NE(client.Get(kName).state(), v1::CAMPAIGN_STATE_FAILED) << "its models were trained with them";
}

TEST_F(OfferTest, DecisionsAreTheSameWithKillsAndWithout) {
  const auto arguments = [&](const char* data) {
    return std::vector<std::string>{"--data", folder_.File(data), "--pools", folder_.File("pools"), "--no-tokens"};
  };
  std::vector<Answered> undisturbed, disturbed;
  std::vector<std::string> tasks, tasks_after_kills;
  for (const bool kills : {false, true}) {
    DaemonProcess process(arguments(kills ? "killed" : "whole"));
    process.Spawn();
    {
      DaemonClient client(process.port(), "");
      Run(client, Spec());
    }
    std::vector<Answered>& all = kills ? disturbed : undisturbed;
    std::vector<std::string>& answered = kills ? tasks_after_kills : tasks;
    for (std::size_t first = 0; first < 2400; first += 120) {
      DaemonClient client(process.port(), "");
      if (first == 1200) {
        // Another model from here on: the rest of the first round, the second, and an answer in the third.
        for (int i = 0; i < 4 + 6 + 1; ++i) {
          const v1::Task task = client.AcquireOne(kName, "ada");
          answered.push_back(task.item_id());
          EXPECT_EQ(client.SubmitOne(kName, "ada", task, AnswerTo(task.item_id())), 0);
          // Which tasks there are, and which model decides, must not depend on who is faster.
          if (i == 3) WaitForRound(client, kName, 2);
          if (i == 9) WaitForRound(client, kName, 3);
        }
      }
      const std::vector<Answered> answers = Offer(client, Message(first, 120));
      all.insert(all.end(), answers.begin(), answers.end());
      if (!kills || first % 240 != 0) continue;
      if (first % 480 == 0) {
        // While the next message is on its way.
        grpc::ClientContext context;
        client.Prepare(context);
        const auto stream = client.campaigns().OfferItems(&context);
        stream->Write(Message(first + 120, 120));
        process.Kill();
        stream->Finish();
      } else {
        process.Kill();
      }
      process.Spawn();
      DaemonClient again(process.port(), "");
      EXPECT_EQ(Offer(again, Message(first, 120)), answers) << "what was answered stays so";
    }
  }
  EXPECT_THAT(undisturbed, SizeIs(2400));
  EXPECT_EQ(disturbed, undisturbed);
  EXPECT_EQ(tasks_after_kills, tasks);
  EXPECT_THAT(Taken(disturbed).size(), AllOf(Ge(119u), Le(120u)));
}

TEST_F(OfferTest, ALongStreamKeepsItsBudgetAndIsSureOfNothing) {
  StartDaemon();
  DaemonClient client = Client();
  Run(client, Spec(kName, 0.01));
  grpc::ClientContext context;
  client.Prepare(context);
  const auto stream = client.campaigns().OfferItems(&context);
  std::size_t decided = 0, taken = 0;
  for (int pass = 0; pass < 10; ++pass) {
    for (std::size_t first = 0; first < rows_.size(); first += 1000) {
      v1::OfferItemsRequest request = Message(first, 1000, absl::StrCat(pass, "/", first));
      for (v1::OfferedItem& item : *request.mutable_items()) item.set_item_id(absl::StrCat(pass, "-", item.item_id()));
      if (decided > 0) request.clear_campaign();
      ASSERT_TRUE(stream->Write(request));
      v1::OfferItemsResponse response;
      ASSERT_TRUE(stream->Read(&response));
      for (const v1::OfferAnswer& answer : response.answers()) {
        ++decided;
        taken += answer.decision() == v1::OFFER_DECISION_LABEL ? 1 : 0;
      }
    }
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(decided, 40'000u);
  EXPECT_NEAR(static_cast<double>(taken), 400, 4) << "1 percent of the budget";
}

TEST_F(OfferTest, RowsThatAreNotTakenAreKeptAsTheSpecificationSays) {
  StartDaemon();
  DaemonClient client = Client();
  for (const auto& [keep, least, most] : {std::tuple(v1::StreamSpec::KEEP_NONE, 19, 20),
                                          {v1::StreamSpec::KEEP_SAMPLE, 80, 140},
                                          {v1::StreamSpec::KEEP_ALL, 400, 400}}) {
    v1::CampaignSpec spec = Spec(absl::StrCat("keep-", static_cast<int>(keep)));
    spec.mutable_selection()->mutable_stream()->set_keep(keep);
    if (keep == v1::StreamSpec::KEEP_SAMPLE) spec.mutable_selection()->mutable_stream()->set_keep_share(0.25);
    Run(client, spec);
    v1::OfferItemsRequest request = Message(0, 400);
    request.set_campaign(spec.name());
    EXPECT_THAT(Taken(Offer(client, request)), SizeIs(AllOf(Ge(19u), Le(20u))));
    const std::int64_t kept = client.Get(spec.name()).pool_rows() - kPoolRows;
    EXPECT_GE(kept, least) << spec.name();
    EXPECT_LE(kept, most) << spec.name();
    WorkUntilOver(client, spec.name(), "ada", 12);
    WaitForRound(client, spec.name(), 2);
    EXPECT_EQ(client.Get(spec.name()).stream().waiting_rows(), 0);
    EXPECT_EQ(client.Get(spec.name()).pool_rows() - kPoolRows, kept);
  }
  StopDaemon();
  StartDaemon();
  DaemonClient again = Client();
  EXPECT_EQ(again.Get(absl::StrCat("keep-", static_cast<int>(v1::StreamSpec::KEEP_ALL))).pool_rows(), kPoolRows + 400);
}

TEST_F(OfferTest, OneRowByPost) {
  pipeline::DaemonOptions options = Options();
  options.web.address = "127.0.0.1:0";
  StartDaemon(options);
  DaemonClient client = Client();
  Run(client, Spec(kName, 1));
  const auto post = [&](const std::string& body) {
    RawConnections connection(daemon_->web_port());
    connection.Open(absl::StrCat("POST /fulcrum.v1.CampaignService/OfferItem HTTP/1.1\r\nHost: localhost\r\n",
                                 "Connection: close\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                                 "\r\n\r\n", body));
    return connection.size() == 1 ? connection.ReadAll(0) : "";
  };
  const std::string row =
      R"({"campaign": "stream", "requestId": "r1", "featureNames": ["f3", "f2", "f1", "f0"],)"
      R"( "item": {"itemId": "posted", "features": {"values": [0.4, 0.3, 0.2, 0.1]}, "payload": "see"}})";
  const std::string answer = post(row);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("OFFER_DECISION_LABEL"));
  EXPECT_THAT(post(row), HasSubstr("OFFER_DECISION_LABEL"));
  EXPECT_EQ(client.Get(kName).stream().rows(), 1);
  EXPECT_THAT(
      post(R"({"campaign": "stream", "requestId": "r2", "item": {"itemId": "x", "features": {"values": [1]}}})"),
      HasSubstr("has 1 features, and the pool has 4"));
}

TEST_F(OfferTest, WhatCannotBeDecidedIsRefusedWithTheReason) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(Spec()).ok());
  EXPECT_EQ(CodeOf(client, Message(0, 1)), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(message_, HasSubstr("start"));
  v1::CampaignSpec plain = Spec("plain");
  plain.mutable_selection()->clear_stream();
  ASSERT_TRUE(client.Create(plain).ok());
  v1::OfferItemsRequest to_plain = Message(0, 1);
  to_plain.set_campaign("plain");
  EXPECT_EQ(CodeOf(client, to_plain), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(message_, HasSubstr("selection: {stream"));
  ASSERT_TRUE(client.Start(kName).ok());

  v1::OfferItemsRequest wrong = Message(0, 2);
  wrong.mutable_items(1)->mutable_features()->add_values(1);
  EXPECT_EQ(CodeOf(client, wrong), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(message_, HasSubstr("items[1] has 5 features, and the pool has 4"));
  wrong = Message(0, 2);
  wrong.mutable_items(0)->clear_item_id();
  EXPECT_EQ(CodeOf(client, wrong), grpc::StatusCode::INVALID_ARGUMENT);
  wrong = Message(0, 2);
  wrong.clear_request_id();
  EXPECT_EQ(CodeOf(client, wrong), grpc::StatusCode::INVALID_ARGUMENT);
  wrong = Message(0, 2);
  wrong.mutable_items(0)->mutable_features()->set_values(0, 1e300);
  EXPECT_EQ(CodeOf(client, wrong), grpc::StatusCode::INVALID_ARGUMENT);
  wrong = Message(0, 2);
  wrong.add_feature_names("f9");
  EXPECT_EQ(CodeOf(client, wrong), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Get(kName).stream().rows(), 0) << "nothing was decided";
  EXPECT_EQ(CodeOf(client, Message(0, 2)), grpc::StatusCode::OK);
}

TEST_F(OfferTest, RowsUnlikeThePoolRaiseAnAlarm) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = Spec();
  spec.mutable_selection()->mutable_stream()->set_drift_window(100);
  Run(client, spec);
  Offer(client, Message(0, 1000));
  EXPECT_LE(client.Get(kName).stream().drift_alarms(), 1);
  v1::OfferItemsRequest moved = Message(1000, 200);
  for (v1::OfferedItem& item : *moved.mutable_items()) item.mutable_features()->set_values(0, 4);
  Offer(client, moved);
  const v1::StreamStatus status = client.Get(kName).stream();
  EXPECT_GE(status.drift_alarms(), 2);
  EXPECT_TRUE(status.drifting());
}

}  // namespace
}  // namespace fulcrum::testing
