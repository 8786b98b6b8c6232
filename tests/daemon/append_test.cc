// Appending to the pool of a running campaign.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::size_t kFirstRows = 12;

class AppendTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("pools/few.csv", NamedCloudsText(kFirstRows));
  }

  static v1::CampaignSpec FewSpec(const std::string& name) {
    v1::CampaignSpec spec = CloudSpec(name, 4);
    spec.mutable_pool()->set_sources(0, "few.csv");
    return spec;
  }
  /// Converts CSV text to an Arrow IPC file.
  std::string ToArrow(const std::string& text) {
    const std::string from = folder_.Write("rows.csv", text), to = folder_.File("rows.arrow");
    const auto rows = ingest::ConvertTable({from}, to);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::ifstream file(to, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  v1::AppendItemsResponse AppendOrFail(DaemonClient& client, const std::string& name, const std::string& bytes,
                                       const std::string& request_id = NewRequestId()) {
    v1::AppendItemsResponse response;
    const grpc::Status status = client.Append(name, request_id, bytes, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  /// Waits until rows were appended after `action`. Returns the number of rows of the pool.
  std::int64_t RowsAfter(const std::string& name, const std::function<void()>& action) const {
    CampaignWatch watch(daemon_->port(), name);
    v1::CampaignEvent event;
    watch.Next(&event);  // the state; later events cannot be missed
    action();
    while (watch.Next(&event)) {
      if (event.has_items()) return event.items().pool_rows();
    }
    return -1;
  }
  grpc::Status TryAppend(DaemonClient& client, const std::string& name, const std::string& bytes) {
    v1::AppendItemsResponse response;
    return client.Append(name, NewRequestId(), bytes, &response);
  }
};

TEST_F(AppendTest, NewRowsTakePartFromTheNextRoundAndARestartChangesNothing) {
  StartDaemon();
  DaemonClient client = Client();
  const std::string more = ToArrow(NamedCloudsText(60));
  for (const char* name : {"whole", "broken"}) {
    ASSERT_TRUE(client.Create(FewSpec(name)).ok());
    ASSERT_TRUE(client.Start(name).ok());
    const v1::Task task = client.AcquireOne(name, "ada");  // the first round is complete
    const v1::AppendItemsResponse appended = AppendOrFail(client, name, more);
    EXPECT_EQ(appended.read(), 60);
    EXPECT_EQ(appended.added(), 48);
    EXPECT_EQ(appended.existing(), 12);
    EXPECT_EQ(appended.pool_rows(), 60);
    EXPECT_EQ(client.Get(name).pool_rows(), 60);
    EXPECT_EQ(client.SubmitOne(name, "ada", task, AnswerTo(task.item_id())), 0);
  }
  WorkUntilOver(client, "whole", "ada");
  WorkUntilOver(client, "broken", "ada", 8);
  StopDaemon();
  StartDaemon();
  DaemonClient again = Client();
  EXPECT_EQ(again.Get("broken").pool_rows(), 60);
  WorkUntilOver(again, "broken", "ada");
  EXPECT_THAT(again.Get("whole").state_reason(), HasSubstr("round limit reached (4 of 4)"));
  const Batches batches = again.ExportedBatches("whole");
  EXPECT_THAT(batches, SizeIs(4));
  EXPECT_EQ(again.ExportedBatches("broken"), batches);
  std::size_t new_rows = 0;
  for (const std::string& item : batches.at(1)) EXPECT_LT(std::stoul(item), kFirstRows);
  for (const std::string& item : batches.at(2)) new_rows += std::stoul(item) >= kFirstRows ? 1 : 0;
  EXPECT_GT(new_rows, 0u);
}

TEST_F(AppendTest, ColumnsThatAreNotThePoolsAreRefusedByName) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  const auto refusal = [&](const std::string& rows) {
    const grpc::Status status = TryAppend(client, "few", ToArrow(rows));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(refusal("id,f0,f1,f3\n100,1,2,4\n"), HasSubstr("lack 1 of the pool's features: 'f2'"));
  EXPECT_THAT(refusal("id,f0,f1,f2,f3,f4\n100,1,2,3,4,5\n"), HasSubstr("'f4'"));
  EXPECT_THAT(refusal("id,f0,f2,f1,f3\n100,1,3,2,4\n"),
              AllOf(HasSubstr("another order"), HasSubstr("feature 2 is 'f2', and that of the pool is 'f1'")));
  EXPECT_EQ(client.Get("few").pool_rows(), static_cast<std::int64_t>(kFirstRows));
}

TEST_F(AppendTest, RowsThatCannotBeTakenAreSetAsideWithTheReason) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  const std::string rows = "id,f0,f1,f2,f3\n100,1,2,3,4\n101,1,nan,3,4\n0,9,9,9,9\n,1,2,3,4\n100,1,2,3,4\n";
  const v1::AppendItemsResponse response = AppendOrFail(client, "few", ToArrow(rows));
  EXPECT_EQ(response.read(), 5);
  EXPECT_EQ(response.added(), 1);
  EXPECT_EQ(response.existing(), 1);
  EXPECT_EQ(response.rejected(), 3);
  ASSERT_THAT(response.rejected_examples(), SizeIs(3));
  EXPECT_THAT(response.rejected_examples(),
              ::testing::Contains(AllOf(HasSubstr("row 1"), HasSubstr("f1"), ::testing::Not(HasSubstr("/")))));
  EXPECT_THAT(response.rejected_examples(), ::testing::Contains(HasSubstr("other content is in the pool already")));
  EXPECT_EQ(client.Get("few").pool_rows(), 13);
}

TEST_F(AppendTest, FilesOfAWatchedFolderAreAppendedOnceAlsoAfterARestart) {
  std::filesystem::create_directories(folder_.File("pools/incoming"));
  StartDaemon();
  v1::CampaignSpec spec = FewSpec("few");
  spec.mutable_pool()->set_watch("incoming");
  {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Create(spec).ok());
    const auto put_there = [&] {
      const std::string written = folder_.Write("pools/incoming/.more.csv", NamedCloudsText(60));
      std::filesystem::rename(written, folder_.File("pools/incoming/more.csv"));
    };
    EXPECT_EQ(RowsAfter("few", put_there), 60);
    EXPECT_EQ(client.Get("few").pool_rows(), 60);
  }
  StopDaemon();
  StartDaemon();
  // Files are read in order of their names: once the later one is appended, the first one was checked again.
  const auto put_there = [&] { folder_.Write("pools/incoming/yet_more.csv", NamedCloudsText(70)); };
  EXPECT_EQ(RowsAfter("few", put_there), 70);
  std::size_t appended = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("data/campaigns/few/pool"))) {
    appended += entry.path().filename().string().starts_with("appended-") ? 1 : 0;
  }
  EXPECT_EQ(appended, 2u) << "each file once";
}

TEST_F(AppendTest, AWatchedFolderThatIsNotThereIsToldAtOnce) {
  StartDaemon();
  DaemonClient client = Client();
  v1::CampaignSpec spec = FewSpec("few");
  for (const char* folder : {"nowhere", "../..", "few.csv"}) {
    spec.mutable_pool()->set_watch(folder);
    const grpc::Status status = client.Create(spec);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << folder;
    EXPECT_THAT(status.error_message(), HasSubstr(folder));
  }
}

TEST_F(AppendTest, ARequestTakesEffectOnce) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  const std::string rows = ToArrow("id,f0,f1,f2,f3\n100,1,2,3,4\n101,1,nan,3,4\n");
  const v1::AppendItemsResponse first = AppendOrFail(client, "few", rows, "once");
  const v1::AppendItemsResponse second = AppendOrFail(client, "few", rows, "once");
  EXPECT_EQ(first.added(), 1);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  v1::AppendItemsResponse response;
  EXPECT_EQ(client.Append("few", "once", ToArrow("id,f0,f1,f2,f3\n7,1,2,3,4\n"), &response).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  const v1::AppendItemsResponse known = AppendOrFail(client, "few", rows);
  EXPECT_EQ(known.added(), 0);
  EXPECT_EQ(known.existing(), 1);
  EXPECT_EQ(client.Get("few").pool_rows(), 13);
}

TEST_F(AppendTest, RowsThatDoNotFitThePoolAreRefused) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  ASSERT_TRUE(client.Create(CloudSpec("numbers", 2)).ok());
  for (const char* rows : {"id,f0,f1,f2\n100,1,2,3\n", "id,f0,f1,f2,g3\n100,1,2,3,4\n", "f0,f1,f2,f3\n1,2,3,4\n",
                           "id,f1,f0,f2,f3\n100,1,2,3,4\n"}) {
    EXPECT_EQ(TryAppend(client, "few", ToArrow(rows)).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << rows;
  }
  const std::string good = ToArrow("id,f0,f1,f2,f3\n100,1,2,3,4\n");
  EXPECT_EQ(TryAppend(client, "numbers", good).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(TryAppend(client, "nobody", good).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(client.Stop("few").ok());
  EXPECT_EQ(TryAppend(client, "few", good).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(client.Get("few").pool_rows(), 12);
}

TEST_F(AppendTest, AParquetFileIsRefusedAsAnArgument) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  for (const std::string& bytes :
       {std::string("PAR1") + std::string(200, '\x15') + "PAR1", std::string("id,f0\n1,2\n")}) {
    const grpc::Status status = TryAppend(client, "few", bytes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(bytes.starts_with("PAR1") ? "Parquet" : "Arrow IPC"));
  }
}

TEST_F(AppendTest, RowsWithoutIdsGetTheNextNumbersAndAreTakenAsOftenAsTheyAreSent) {
  folder_.Write("pools/numbers.csv", CloudsText(kFirstRows));
  StartDaemon();
  v1::CampaignSpec spec = CloudSpec("numbers", 8);
  spec.mutable_pool()->set_sources(0, "numbers.csv");
  {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Create(spec).ok());
    const std::string rows = ToArrow("f0,f1,f2,f3\n9,8,7,6\n5,nan,3,2\n1,2,3,4\n");
    const v1::AppendItemsResponse first = AppendOrFail(client, "numbers", rows, "once");
    EXPECT_EQ(first.added(), 2);
    EXPECT_EQ(first.rejected(), 1);
    EXPECT_EQ(AppendOrFail(client, "numbers", rows, "once").SerializeAsString(), first.SerializeAsString());
    EXPECT_EQ(AppendOrFail(client, "numbers", rows).pool_rows(), 16) << "another request is other rows";
  }
  StopDaemon();
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Start("numbers").ok());
  WorkUntilOver(client, "numbers", "ada");
  std::set<std::string> labeled;
  for (const v1::ExportedLabel& label : client.Export("numbers")) labeled.insert(label.item_id());
  std::set<std::string> expected;
  for (int row = 0; row < 16; ++row) expected.insert(absl::StrCat(row));
  EXPECT_EQ(labeled, expected);
}

TEST_F(AppendTest, DamagedArrowIsRefusedAndNothingElseHappens) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  const std::string good = ToArrow(NamedCloudsText(30));
  Random random(11);
  for (int damage = 0; damage < 60; ++damage) {
    std::string bad = good;
    if (damage % 3 == 0) bad.resize(random.Below(bad.size()));
    if (damage % 3 == 1) bad = std::string(random.Below(5000), static_cast<char>(damage));
    // The footer defines the types of the values, so any damage in it must be detected.
    for (std::size_t i = 0; damage % 3 == 2 && i < 64; ++i) {
      bad[bad.size() - 12 - i] = static_cast<char>(random.Below(256));
    }
    const grpc::Status status = TryAppend(client, "few", bad);
    EXPECT_THAT(status.error_code(),
                ::testing::AnyOf(grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::RESOURCE_EXHAUSTED))
        << damage << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), ::testing::Not(HasSubstr(folder_.path())));
  }
  EXPECT_EQ(client.Get("few").pool_rows(), 12);
  EXPECT_EQ(AppendOrFail(client, "few", good).added(), 18);
}

TEST_F(AppendTest, TheStreamHasABeginningAndAnEndAndOneAppendsAtATime) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  grpc::ClientContext context;
  client.Prepare(context);
  v1::AppendItemsResponse response;
  const auto stream = client.campaigns().AppendItems(&context, &response);
  v1::AppendItemsRequest part;
  part.set_chunk("bytes");
  stream->Write(part);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  grpc::ClientContext cut_context;
  client.Prepare(cut_context);
  const auto cut = client.campaigns().AppendItems(&cut_context, &response);
  part.mutable_begin()->set_campaign("few");
  part.mutable_begin()->set_request_id("cut");
  ASSERT_TRUE(cut->Write(part));
  part.set_chunk(ToArrow("id,f0,f1,f2,f3\n99,1,2,3,4\n"));
  ASSERT_TRUE(cut->Write(part));
  cut->WritesDone();
  EXPECT_EQ(cut->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Get("few").pool_rows(), 12);

  grpc::ClientContext slow_context;
  client.Prepare(slow_context);
  const auto slow = client.campaigns().AppendItems(&slow_context, &response);
  part.mutable_begin()->set_campaign("few");
  part.mutable_begin()->set_request_id("slow");
  ASSERT_TRUE(slow->Write(part));
  const std::string rows = ToArrow("id,f0,f1,f2,f3\n100,1,2,3,4\n");
  // The server may handle the messages of the two streams in any order; after the slow one's, it rejects the other.
  grpc::Status refused;
  for (int i = 0; i < 1000 && refused.ok(); ++i) refused = TryAppend(client, "few", rows);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ABORTED);
  slow_context.TryCancel();
  slow->Finish();
  for (int i = 0; i < 1000 && !refused.ok(); ++i) refused = TryAppend(client, "few", rows);
  EXPECT_TRUE(refused.ok()) << refused.error_message();
}

TEST_F(AppendTest, AnAppendIsAnOperationThatCanBeCancelled) {
  StartDaemon();
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  const auto appends = [&client] {
    std::vector<v1::Operation> found;
    grpc::ClientContext context;
    client.Prepare(context);
    v1::ListOperationsResponse all;
    EXPECT_TRUE(client.operations().ListOperations(&context, {}, &all).ok());
    for (const v1::Operation& operation : all.operations()) {
      if (operation.kind() == v1::OPERATION_KIND_APPEND_ITEMS) found.push_back(operation);
    }
    return found;
  };
  EXPECT_THAT(appends(), SizeIs(0));

  grpc::ClientContext context;
  client.Prepare(context);
  v1::AppendItemsResponse response;
  const auto stream = client.campaigns().AppendItems(&context, &response);
  v1::AppendItemsRequest part;
  part.mutable_begin()->set_campaign("few");
  part.mutable_begin()->set_request_id("long");
  ASSERT_TRUE(stream->Write(part));
  std::vector<v1::Operation> running;
  while (running.empty()) running = appends();
  EXPECT_EQ(running[0].state(), v1::OPERATION_STATE_RUNNING);
  EXPECT_EQ(running[0].campaign(), "few");
  grpc::ClientContext cancel_context;
  client.Prepare(cancel_context);
  v1::CancelOperationRequest cancel;
  cancel.set_operation(running[0].name());
  v1::CancelOperationResponse cancelled;
  ASSERT_TRUE(client.operations().CancelOperation(&cancel_context, cancel, &cancelled).ok());
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(status.error_message(), HasSubstr("nothing was appended"));
  EXPECT_EQ(client.AwaitOperation(running[0].name()).state(), v1::OPERATION_STATE_CANCELLED);
  EXPECT_EQ(client.Get("few").pool_rows(), 12);

  EXPECT_EQ(AppendOrFail(client, "few", ToArrow(NamedCloudsText(30))).added(), 18);
  const std::vector<v1::Operation> ended = appends();
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_EQ(ended[0].state(), v1::OPERATION_STATE_SUCCEEDED);
  EXPECT_EQ(ended[0].rows_done(), 18);
  EXPECT_TRUE(ended[0].has_ended_at());
  ASSERT_FALSE(TryAppend(client, "few", "no Arrow").ok());
  EXPECT_EQ(appends()[0].state(), v1::OPERATION_STATE_FAILED);
  EXPECT_THAT(appends()[0].error().message(), HasSubstr("Arrow"));
  // It does not count as a campaign of that name that is being created.
  EXPECT_EQ(client.Create(FewSpec("few")).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(AppendTest, AnAcknowledgedAppendSurvivesAKillAndLeftoversAreReplaced) {
  DaemonProcess process({"--data", folder_.File("data"), "--pools", folder_.File("pools"), "--no-tokens"});
  process.Spawn();
  DaemonClient client(process.port(), "");
  ASSERT_TRUE(client.Create(FewSpec("few")).ok());
  EXPECT_EQ(AppendOrFail(client, "few", ToArrow("id,f0,f1,f2,f3\n100,1,2,3,4\n")).pool_rows(), 13);
  process.Kill();
  // As if the daemon had been killed before the second folder was logged.
  std::filesystem::create_directories(folder_.File("data/campaigns/few/pool/appended-00002"));
  folder_.Write("data/campaigns/few/pool/appended-00002/part-00000.arrow", "half of something");
  folder_.Write("data/campaigns/few/incoming.arrow", "a chunk");
  process.Spawn();
  DaemonClient second(process.port(), "");
  EXPECT_EQ(second.Get("few").pool_rows(), 13);
  EXPECT_EQ(AppendOrFail(second, "few", ToArrow("id,f0,f1,f2,f3\n101,1,2,3,4\n")).pool_rows(), 14);
  process.Kill();
  process.Spawn();
  DaemonClient third(process.port(), "");
  EXPECT_EQ(third.Get("few").pool_rows(), 14);
}

}  // namespace
}  // namespace fulcrum::testing
