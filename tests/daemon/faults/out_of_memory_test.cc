// Work of the daemon that throws because there is no memory for it: its caller is told so, and the daemon goes on.
// Memory of the size of one example's payload is refused.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/text/status.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/refused_memory.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

// Nothing else in the process is of this size.
constexpr std::size_t kPayloadBytes = 777'777;
constexpr std::size_t kMostMore = 64;

void RefusePayloads() {
  RefuseMemory(kPayloadBytes, kPayloadBytes + kMostMore);
}

class OutOfMemoryTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("pools/texts.csv", absl::StrCat("id,f0,f1,text\na,1,2,", std::string(kPayloadBytes, 't'),
                                                  "\nb,2,1,short\nc,3,3,short\nd,4,2,short\n"));
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
    v1::CampaignSpec spec = CloudSpec("texts", 4);
    spec.mutable_pool()->set_sources(0, "texts.csv");
    spec.mutable_pool()->set_payload_column("text");
    const grpc::Status created = client_->Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client_->Start("texts").ok());
  }
  void TearDown() override {
    AllowMemory();
    StopDaemon();
  }

  grpc::Status GetItem() {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::GetItemRequest request;
    request.set_campaign("texts");
    request.set_item_id("a");
    v1::GetItemResponse response;
    const grpc::Status status = client_->items().GetItem(&context, request, &response);
    EXPECT_EQ(response.payload().size(), status.ok() ? kPayloadBytes : 0);
    return status;
  }
  grpc::Status GetPayload() {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::GetPayloadRequest request;
    request.set_campaign("texts");
    request.set_item_id("a");
    const auto stream = client_->labeling().GetPayload(&context, request);
    for (v1::GetPayloadResponse response; stream->Read(&response);) {
    }
    return stream->Finish();
  }

  /// `call` throws in the daemon as long as there is no memory.
  void ExpectToldAndForgotten(const std::function<grpc::Status()>& call) {
    RefusePayloads();
    const int before = RefusedAllocations();
    for (int i = 0; i < 20; ++i) {
      const grpc::Status status = call();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr("not have enough memory"));
      EXPECT_EQ(client_->Get("texts").name(), "texts") << "others are answered";
    }
    EXPECT_GE(RefusedAllocations() - before, 20);
    AllowMemory();
    const grpc::Status status = call();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(OutOfMemoryTest, ACallOfOneAnswerIsRefusedAndCanBeRepeated) {
  ExpectToldAndForgotten([this] { return GetItem(); });
}

TEST_F(OutOfMemoryTest, AStreamOfPagesEndsAndCanBeRepeated) {
  ExpectToldAndForgotten([this] { return GetPayload(); });
}

TEST_F(OutOfMemoryTest, AWorkerWhoseTasksCannotBeDescribedIsToldAndGetsThemLater) {
  RefusePayloads();
  v1::AcquireTasksRequest wanted = TasksWanted("texts", "ada", 4);
  v1::AcquireTasksResponse tasks;
  const grpc::Status status = client_->Acquire(wanted, &tasks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(client_->Get("texts").name(), "texts");
  AllowMemory();
  // The repeated request is answered as the first one would have been.
  const grpc::Status again = client_->Acquire(wanted, &tasks);
  EXPECT_TRUE(again.ok()) << again.error_message();
  EXPECT_EQ(tasks.tasks_size(), 4);
}

TEST_F(OutOfMemoryTest, AStreamOfAWorkerEndsAndTheOneThatContinuesItGetsTheTasks) {
  // The tasks that come until there are four, or why there are not.
  const auto work = [this](int& tasks) {
    grpc::ClientContext context;
    client_->Prepare(context);
    const auto stream = client_->labeling().Work(&context);
    v1::WorkRequest hello;
    hello.mutable_hello()->set_campaign("texts");
    hello.mutable_hello()->set_annotator("ada");
    hello.mutable_hello()->set_credit(4);
    hello.mutable_hello()->set_session_id("session");
    stream->Write(hello);
    v1::WorkResponse response;
    while (tasks < 4 && stream->Read(&response)) tasks += response.tasks().tasks_size();
    if (tasks == 4) stream->WritesDone();
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  RefusePayloads();
  int tasks = 0;
  const grpc::Status status = work(tasks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  AllowMemory();
  tasks = 0;
  const grpc::Status again = work(tasks);
  EXPECT_TRUE(again.ok()) << again.error_message();
  EXPECT_EQ(tasks, 4);
}

// Without a daemon: the thread that offers rows is that of the test.
TEST(OutOfMemoryOfferTest, RowsThatCannotBeTakenDoNotStopTheStream) {
  // A node of a set of pairs of texts, which is made for every request that is taken from the queue.
  constexpr std::size_t kNodeBytes = 32 + sizeof(std::pair<std::string, std::string>);
  const TemporaryDirectory folder;
  std::string rows = "id,f0,f1\n";
  for (int row = 0; row < 40; ++row) absl::StrAppend(&rows, "x", row, ",", row % 7, ",", row % 5, "\n");
  folder.Write("rows.csv", rows);
  v1::CampaignSpec spec;
  spec.set_name("stream");
  spec.mutable_pool()->add_sources("rows.csv");
  spec.mutable_pool()->set_id_column("id");
  spec.add_classes("neg");
  spec.add_classes("pos");
  spec.mutable_selection()->mutable_stream()->set_share(0.5);
  const auto campaign =
      pipeline::Campaign::Create(folder.File("campaign"), spec, {.pools = {.root = folder.path()}}, {});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  ASSERT_TRUE((*campaign)->Start({.by = "root"}).ok());
  int offered = 0;
  const auto offer = [&] {
    pipeline::OfferRequest request{.by = "root", .request_id = absl::StrCat("offer ", ++offered)};
    v1::OfferedItem& item = *request.items.Add();
    item.set_item_id(absl::StrCat("new-", offered));
    for (const double value : {1.0 * (offered % 7), 1.0 * (offered % 5)}) item.mutable_features()->add_values(value);
    return pipeline::RunGuarded([&] { return (*campaign)->OfferItems(request).status(); });
  };
  ASSERT_TRUE(offer().ok());
  int refusals = 0;
  for (bool refused = true; refused; ++refusals) {
    const int before = RefusedAllocations();
    RefuseMemoryHere(kNodeBytes, refusals);
    const absl::Status status = offer();
    AllowMemory();
    refused = RefusedAllocations() > before;
    EXPECT_EQ(status.ok(), !refused) << status;
    EXPECT_TRUE(offer().ok()) << "after a request that failed";
  }
  EXPECT_GT(refusals, 1);
}

}  // namespace
}  // namespace fulcrum::testing
