// LabelingService.Work: everything that calls can do, on one stream, which can be continued after it broke.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "arrow/api.h"
#include "stages/ingest/formats/table_writer.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A worker's stream.
class Stream {
 public:
  Stream(DaemonClient& client, const std::string& annotator, int credit, const std::string& session = "",
         const std::string& campaign = "clouds") {
    client.Prepare(context_);
    stream_ = client.labeling().Work(&context_);
    v1::WorkRequest hello;
    hello.mutable_hello()->set_campaign(campaign);
    hello.mutable_hello()->set_annotator(annotator);
    hello.mutable_hello()->set_credit(credit);
    hello.mutable_hello()->set_session_id(session);
    EXPECT_TRUE(stream_->Write(hello));
  }
  ~Stream() {
    context_.TryCancel();
    v1::WorkResponse ignored;
    while (stream_->Read(&ignored)) {
    }
    if (!finished_) stream_->Finish();
  }

  v1::WorkResponse Next() {
    v1::WorkResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  /// The next message that is not about tasks.
  v1::WorkResponse Answer() {
    v1::WorkResponse response = Next();
    while (response.has_tasks()) response = Next();
    return response;
  }
  /// Reads until so many tasks have come.
  std::vector<v1::Task> Tasks(std::size_t count) {
    std::vector<v1::Task> tasks;
    while (tasks.size() < count) {
      const v1::WorkResponse response = Next();
      tasks.insert(tasks.end(), response.tasks().tasks().begin(), response.tasks().tasks().end());
      if (!response.has_tasks()) break;
    }
    return tasks;
  }
  void Write(const v1::WorkRequest& request) { EXPECT_TRUE(stream_->Write(request)); }
  void Break() { context_.TryCancel(); }
  /// Ends the worker's side; the rest can still be read.
  void HalfClose() { stream_->WritesDone(); }
  std::vector<v1::WorkResponse> Rest() {
    std::vector<v1::WorkResponse> rest;
    for (v1::WorkResponse response; stream_->Read(&response);) rest.push_back(response);
    return rest;
  }
  grpc::Status Finish() {
    finished_ = true;
    return stream_->Finish();
  }

 private:
  bool finished_ = false;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkRequest, v1::WorkResponse>> stream_;
};

v1::LeaseRef LeaseOf(const v1::Task& task) {
  v1::LeaseRef lease;
  lease.set_lease_id(task.lease_id());
  lease.set_epoch(task.epoch());
  return lease;
}

std::set<std::string> ItemsOf(const std::vector<v1::Task>& tasks) {
  std::set<std::string> items;
  for (const v1::Task& task : tasks) items.insert(task.item_id());
  return items;
}

/// Rows with payloads of so many bytes, each of one letter.
void WritePayloads(const std::string& path, const std::vector<std::size_t>& sizes) {
  arrow::StringBuilder ids, texts;
  arrow::DoubleBuilder first, second;
  for (int row = 0; row < static_cast<int>(sizes.size()); ++row) {
    ASSERT_TRUE(ids.Append(absl::StrCat("x", row)).ok());
    const std::string text(sizes[static_cast<std::size_t>(row)], static_cast<char>('a' + row % 26));
    ASSERT_TRUE(texts.Append(text).ok());
    ASSERT_TRUE(first.Append(row % 2 == 0 ? -1 - row : 1 + row).ok());
    ASSERT_TRUE(second.Append(row % 7).ok());
  }
  const auto schema = arrow::schema({arrow::field("id", arrow::utf8()), arrow::field("text", arrow::utf8()),
                                     arrow::field("f0", arrow::float64()), arrow::field("f1", arrow::float64())});
  const auto table = arrow::Table::Make(schema, {*ids.Finish(), *texts.Finish(), *first.Finish(), *second.Finish()});
  ASSERT_TRUE(ingest::WriteParquetFile(*table, path).ok());
}

class WorkStreamTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(Client());
  }
  void StartClouds(const v1::CampaignSpec& spec) {
    const grpc::Status created = client_->Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client_->Start(spec.name()).ok());
  }
  static v1::WorkRequest Submit(const v1::Task& task, const std::string& id) {
    v1::WorkRequest request;
    *request.mutable_submit() = AnswerOf("clouds", "ada", task, AnswerTo(task.item_id()));
    request.mutable_submit()->set_request_id(id);
    return request;
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(WorkStreamTest, ASessionThatIsContinuedGetsItsTasksAgainAndOthersDoNot) {
  StartClouds(CloudSpec("clouds", 4));
  std::vector<v1::Task> tasks;
  {
    Stream stream(*client_, "ada", 3, "session-1");
    tasks = stream.Tasks(3);
    stream.Write(Submit(tasks[0], "s1"));
    EXPECT_EQ(stream.Answer().submitted().results(0).status().code(), 0);
    stream.Break();
  }
  Stream other(*client_, "ada", 1, "session-2");
  const std::string others = other.Tasks(1)[0].item_id();
  Stream again(*client_, "ada", 3, "session-1");
  const std::vector<v1::Task> resumed = again.Tasks(2);
  const std::set<std::string> items = ItemsOf(resumed);
  EXPECT_THAT(items, Contains(tasks[1].item_id()));
  EXPECT_THAT(items, Contains(tasks[2].item_id()));
  EXPECT_THAT(items, ::testing::Not(Contains(tasks[0].item_id()))) << "it is answered";
  EXPECT_THAT(items, ::testing::Not(Contains(others)));
  // What was not answered is repeated with its request id, and takes effect once.
  again.Write(Submit(tasks[0], "s1"));
  EXPECT_EQ(again.Answer().submitted().results(0).status().code(), 0);
  EXPECT_EQ(client_->Get("clouds").labels(), 1);
  again.Write(Submit(tasks[1], "s2"));
  EXPECT_EQ(again.Answer().submitted().results(0).status().code(), 0);
  EXPECT_EQ(client_->Get("clouds").labels(), 2);
}

TEST_F(WorkStreamTest, AHalfClosedStreamGetsAllAnswersThatAreDue) {
  StartClouds(CloudSpec("clouds", 4));
  Stream stream(*client_, "ada", 6);
  const std::vector<v1::Task> tasks = stream.Tasks(6);
  for (std::size_t i = 0; i < tasks.size(); ++i) stream.Write(Submit(tasks[i], absl::StrCat("s", i)));
  stream.HalfClose();
  std::size_t answered = 0;
  for (const v1::WorkResponse& response : stream.Rest()) {
    for (const auto& result : response.submitted().results()) answered += result.status().code() == 0 ? 1 : 0;
  }
  EXPECT_EQ(answered, 6u);
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(client_->Get("clouds").labels(), 6);
}

TEST_F(WorkStreamTest, NothingIsLeasedToAWorkerThatHasSaidAll) {
  v1::CampaignSpec spec = CloudSpec("clouds", 4);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(24 * 3600);
  StartClouds(spec);
  Stream stream(*client_, "ada", 3, "session-1");
  std::vector<v1::Task> tasks = stream.Tasks(3);
  // These make room for other tasks, which the server leases at once or not at all.
  v1::WorkRequest release;
  release.mutable_release()->set_request_id("r1");
  for (const v1::Task& task : tasks) *release.mutable_release()->add_leases() = LeaseOf(task);
  stream.Write(release);
  stream.HalfClose();
  v1::ReleaseTasksRequest rest;
  rest.set_campaign("clouds");
  rest.set_annotator("ada");
  rest.set_request_id("r2");
  for (const v1::WorkResponse& response : stream.Rest()) {
    for (const v1::Task& task : response.tasks().tasks()) *rest.add_leases() = LeaseOf(task);
  }
  EXPECT_TRUE(stream.Finish().ok());
  if (rest.leases_size() > 0) {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::ReleaseTasksResponse response;
    EXPECT_TRUE(client_->labeling().ReleaseTasks(&context, rest, &response).ok());
  }
  while (client_->Get("clouds").items().leased() > 0) {
  }
}

TEST_F(WorkStreamTest, SkipReleaseRenewAndChangeWorkOnAStream) {
  StartClouds(CloudSpec("clouds", 4));
  Stream stream(*client_, "ada", 4);
  const std::vector<v1::Task> tasks = stream.Tasks(4);
  v1::WorkRequest skip;
  skip.mutable_skip()->set_request_id("k1");
  *skip.mutable_skip()->add_skips()->mutable_lease() = LeaseOf(tasks[0]);
  skip.mutable_skip()->mutable_skips(0)->set_reason(v1::SKIP_REASON_UNSURE);
  stream.Write(skip);
  EXPECT_EQ(stream.Answer().skipped().results(0).code(), 0);

  v1::WorkRequest release;
  release.mutable_release()->set_request_id("r1");
  *release.mutable_release()->add_leases() = LeaseOf(tasks[1]);
  stream.Write(release);
  EXPECT_EQ(stream.Answer().released().results(0).code(), 0);

  v1::WorkRequest renew;
  renew.mutable_renew()->set_request_id("n1");
  *renew.mutable_renew()->add_leases() = LeaseOf(tasks[2]);
  *renew.mutable_renew()->add_leases() = LeaseOf(tasks[1]);
  stream.Write(renew);
  const v1::RenewLeasesResponse renewed = stream.Answer().renewed();
  EXPECT_EQ(renewed.results(0).status().code(), 0);
  EXPECT_EQ(renewed.results(1).status().code(), static_cast<int>(grpc::StatusCode::ABORTED)) << "it was released";

  stream.Write(Submit(tasks[3], "s1"));
  EXPECT_EQ(stream.Answer().submitted().results(0).status().code(), 0);
  v1::WorkRequest change;
  change.mutable_change()->set_request_id("c1");
  change.mutable_change()->add_changes()->set_item_id(tasks[3].item_id());
  change.mutable_change()->mutable_changes(0)->set_value("pos");
  stream.Write(change);
  EXPECT_EQ(stream.Answer().changed().results(0).status().code(), 0);
  const std::vector<v1::ExportedLabel> labels = client_->Export("clouds");
  ASSERT_THAT(labels, SizeIs(2));
  EXPECT_EQ(labels[1].kind(), v1::LABEL_KIND_CHANGE);
  EXPECT_TRUE(labels[1].counts());
  EXPECT_FALSE(labels[0].counts());
}

TEST_F(WorkStreamTest, ARenewedLeaseStillCountsAgainstTheCredit) {
  v1::CampaignSpec spec = CloudSpec("clouds", 4);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(2);
  StartClouds(spec);
  Stream stream(*client_, "ada", 1);
  const v1::Task task = stream.Tasks(1)[0];
  // Far longer than the first lease: a stream that forgot it would send another task.
  for (int i = 0; i < 5; ++i) {
    v1::WorkRequest renew;
    renew.mutable_renew()->set_request_id(absl::StrCat("n", i));
    *renew.mutable_renew()->add_leases() = LeaseOf(task);
    stream.Write(renew);
    const v1::WorkResponse response = stream.Next();
    ASSERT_TRUE(response.has_renewed()) << response.ShortDebugString();
    ASSERT_EQ(response.renewed().results(0).status().code(), 0);
    absl::SleepFor(absl::Milliseconds(900));  // the lease's own clock is what is tested
  }
  EXPECT_EQ(client_->Get("clouds").live_leases(), 1);
}

TEST_F(WorkStreamTest, AnIdleWorkerIsToldWhatTheCampaignWaitsFor) {
  v1::CampaignSpec spec = CloudSpec("clouds", 4);
  spec.mutable_selection()->set_batch(1);
  StartClouds(spec);
  const v1::Task task = client_->AcquireOne("clouds", "bob");
  Stream stream(*client_, "ada", 1);
  const v1::WorkResponse idle = stream.Next();
  ASSERT_THAT(idle.tasks().tasks(), IsEmpty());
  ASSERT_THAT(idle.tasks().waiting_for(), SizeIs(1));
  EXPECT_EQ(idle.tasks().waiting_for(0).kind(), v1::WaitingFor::KIND_LEASE);
  EXPECT_EQ(idle.tasks().waiting_for(0).annotator(), "bob");
  EXPECT_THAT(idle.tasks().waiting_for(0).text(), HasSubstr("1 task leased by 'bob' until 2"));
  EXPECT_EQ(client_->SubmitOne("clouds", "bob", task, AnswerTo(task.item_id())), 0);
  EXPECT_THAT(stream.Tasks(1), SizeIs(1)) << "the next round";
}

TEST_F(WorkStreamTest, RepliesAreCappedByBytesAndLargePayloadsAreFetchedInChunks) {
  std::vector<std::size_t> sizes(20, 1'000'000);
  sizes[0] = 2'500'000;
  WritePayloads(folder_.File("pools/texts.parquet"), sizes);
  v1::CampaignSpec spec = CloudSpec("texts", 1);
  spec.mutable_pool()->set_sources(0, "texts.parquet");
  spec.mutable_pool()->set_payload_column("text");
  spec.mutable_selection()->set_batch(20);
  StartClouds(spec);
  std::set<std::string> items;
  bool large = false;
  while (items.size() < 20) {
    v1::AcquireTasksResponse tasks;
    const grpc::Status status = client_->Acquire(TasksWanted("texts", "ada", 10), &tasks);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(tasks.tasks_size(), 0);
    ASSERT_LE(tasks.ByteSizeLong(), std::size_t{4} << 20);
    EXPECT_EQ(client_->Get("texts").live_leases(), static_cast<int>(items.size()) + tasks.tasks_size())
        << "only what was sent is leased";
    for (const v1::Task& task : tasks.tasks()) {
      items.insert(task.item_id());
      if (task.item_id() != "x0") {
        EXPECT_EQ(task.payload().size(), 1'000'000u);
        continue;
      }
      large = true;
      EXPECT_THAT(task.payload(), IsEmpty());
      EXPECT_EQ(task.large_payload_bytes(), 2'500'000);
    }
  }
  EXPECT_TRUE(large);
  grpc::ClientContext context;
  client_->Prepare(context);
  v1::GetPayloadRequest request;
  request.set_campaign("texts");
  request.set_item_id("x0");
  const auto stream = client_->labeling().GetPayload(&context, request);
  std::string payload;
  int chunks = 0;
  for (v1::GetPayloadResponse part; stream->Read(&part); ++chunks) {
    EXPECT_EQ(part.payload_bytes(), chunks == 0 ? 2'500'000 : 0);
    payload += part.chunk();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(payload, std::string(2'500'000, 'a'));
  EXPECT_GT(chunks, 1);
}

TEST_F(WorkStreamTest, TwoHundredTasksOfOneMebibyteReachFiveWorkers) {
  constexpr int kTasks = 200;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  WritePayloads(folder_.File("pools/texts.parquet"), std::vector<std::size_t>(kTasks, kBytes));
  v1::CampaignSpec spec = CloudSpec("texts", 1);
  spec.mutable_pool()->set_sources(0, "texts.parquet");
  spec.mutable_pool()->set_payload_column("text");
  spec.mutable_selection()->set_batch(kTasks);
  StartClouds(spec);
  std::mutex mutex;
  std::map<std::string, int> received;
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < 5; ++worker) {
      workers.emplace_back([&, worker] {
        DaemonClient client = Client();
        const std::string name = absl::StrCat("worker-", worker);
        for (bool over = false; !over;) {
          v1::AcquireTasksResponse tasks;
          const grpc::Status status = client.Acquire(TasksWanted("texts", name, 50), &tasks);
          ASSERT_TRUE(status.ok()) << status.error_message();
          over = tasks.campaign_over();
          for (const v1::Task& task : tasks.tasks()) {
            const char letter = static_cast<char>('a' + std::stoi(task.item_id().substr(1)) % 26);
            EXPECT_EQ(task.payload(), std::string(kBytes, letter)) << task.item_id();
            EXPECT_EQ(client.SubmitOne("texts", name, task, AnswerTo(task.item_id().substr(1))), 0);
            const std::scoped_lock lock(mutex);
            ++received[task.item_id()];
          }
        }
      });
    }
  }
  EXPECT_THAT(received, SizeIs(kTasks));
  for (const auto& [item, times] : received) EXPECT_EQ(times, 1) << item;
  EXPECT_EQ(client_->Get("texts").labels(), kTasks);
}

}  // namespace
}  // namespace fulcrum::testing
