// What a campaign does after a time, if the clock of the machine is not the one by which the store counts: it was set
// forward or back while the daemon runs.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/upload_service.grpc.pb.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/manual_clock.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::hours kTenYears{10 * 365 * 24};
constexpr std::chrono::hours kTimeout{2};

/// The clock of the store ten years before and after that of the machine: to the store the machine's clock has been set
/// forward, or back.
class ClockTest : public DaemonTest, public ::testing::WithParamInterface<std::chrono::hours> {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    clock_.Set(std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()) + GetParam());
    pipeline::DaemonOptions options = Options();
    options.clock = &clock_;
    StartDaemon(options);
  }
  void CreateAndStart(const v1::CampaignSpec& spec) {
    const grpc::Status created = Client().Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(Client().Start(spec.name()).ok());
  }
  /// Every commit wakes the campaign's thread, which then looks at the time.
  void Wake(const std::string& name) {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Retrain(name).ok());
    client.Get(name);
  }

  ManualClock clock_;
};

TEST_P(ClockTest, AModelProcessHasItsTime) {
  v1::CampaignSpec spec = CloudSpec("clouds", 3);
  spec.mutable_selection()->set_strategy("margin");
  v1::ExternalModelSpec& external = *spec.mutable_classifier()->mutable_external();
  external.mutable_timeout()->set_seconds(std::chrono::seconds(kTimeout).count());
  external.set_fallback(v1::ExternalModelSpec::FALLBACK_FAIL);
  CreateAndStart(spec);
  DaemonClient client = Client();
  WorkUntilOver(client, "clouds", "ada", 6);
  v1::Campaign campaign;
  const auto waits = [&] {
    for (const v1::WaitingFor& reason : campaign.waiting_for()) {
      if (reason.kind() == v1::WaitingFor::KIND_MODEL) return true;
    }
    return false;
  };
  do campaign = client.Get("clouds");
  while (!waits() && campaign.state() != v1::CAMPAIGN_STATE_FAILED);
  for (int half_hour = 1; half_hour < 4; ++half_hour) {
    clock_.Advance(std::chrono::minutes(30) - std::chrono::minutes(1));
    for (int i = 0; i < 20; ++i) Wake("clouds");
    campaign = client.Get("clouds");
    ASSERT_NE(campaign.state(), v1::CAMPAIGN_STATE_FAILED) << campaign.state_reason();
    ASSERT_TRUE(waits());
  }
  clock_.Advance(std::chrono::hours(1));
  do campaign = client.Get("clouds");
  while (campaign.state() != v1::CAMPAIGN_STATE_FAILED);
  EXPECT_THAT(campaign.state_reason(), HasSubstr("no model process"));
}

TEST_P(ClockTest, AnItemWaitsForAnotherAnnotatorAsLongAsItShould) {
  v1::CampaignSpec spec = CloudSpec("votes", 2);
  spec.mutable_selection()->set_batch(1);
  spec.mutable_labeling()->set_overlap(2);
  spec.mutable_labeling()->mutable_dispute_time()->set_seconds(std::chrono::seconds(kTimeout).count());
  CreateAndStart(spec);
  DaemonClient client = Client();
  const v1::Task task = client.AcquireOne("votes", "ada");
  ASSERT_EQ(client.SubmitOne("votes", "ada", task, "neg"), 0);
  clock_.Advance(kTimeout);
  EXPECT_NE(client.AcquireOne("votes", "ada").item_id(), task.item_id()) << "the next round came without a second vote";
  EXPECT_EQ(client.Get("votes").items().disputed(), 1);
}

TEST_P(ClockTest, AStreamHoldsAsManyTasksAsItsCredit) {
  constexpr int kCredit = 2;
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  spec.mutable_selection()->set_batch(10);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(std::chrono::seconds(kTimeout).count());
  CreateAndStart(spec);
  DaemonClient client = Client();
  grpc::ClientContext context;
  client.Prepare(context);
  const auto stream = client.labeling().Work(&context);
  v1::WorkRequest request;
  request.mutable_hello()->set_campaign("clouds");
  request.mutable_hello()->set_annotator("ada");
  request.mutable_hello()->set_credit(kCredit);
  ASSERT_TRUE(stream->Write(request));
  v1::WorkResponse response;
  std::vector<v1::Task> tasks;
  // Until so many tasks are there, or the answer to a request.
  const auto read = [&](std::size_t count) {
    while (tasks.size() < count && stream->Read(&response)) {
      tasks.insert(tasks.end(), response.tasks().tasks().begin(), response.tasks().tasks().end());
      if (response.has_renewed()) return;
    }
  };
  read(kCredit);
  ASSERT_EQ(tasks.size(), kCredit);
  request.mutable_renew()->set_request_id("renew");
  for (const v1::Task& task : tasks) {
    v1::LeaseRef& lease = *request.mutable_renew()->add_leases();
    lease.set_lease_id(task.lease_id());
    lease.set_epoch(task.epoch());
  }
  ASSERT_TRUE(stream->Write(request));
  read(SIZE_MAX);
  ASSERT_TRUE(response.has_renewed());
  EXPECT_EQ(client.Get("clouds").live_leases(), kCredit);
  EXPECT_EQ(tasks.size(), kCredit);

  // They expire. Any message lets the stream look at what the worker still has.
  clock_.Advance(kTimeout + std::chrono::seconds(2));
  tasks.clear();
  request.mutable_release()->set_request_id("release");
  request.mutable_release()->add_leases()->set_lease_id(1'000'000);
  ASSERT_TRUE(stream->Write(request));
  read(kCredit);
  EXPECT_EQ(tasks.size(), kCredit) << "instead of those that have expired";
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  stream->Finish();
}

TEST_P(ClockTest, AnUploadIsKeptAsLongAsItShould) {
  const auto stub = v1::UploadService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials()));
  const auto create = [&] {
    grpc::ClientContext context;
    v1::CreateUploadRequest request;
    request.set_file_name("rows.csv");
    request.set_size_bytes(10);
    request.set_request_id(NewRequestId());
    v1::CreateUploadResponse response;
    const grpc::Status status = stub->CreateUpload(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.upload().id();
  };
  const auto exists = [&](const std::string& upload) {
    grpc::ClientContext context;
    v1::GetUploadRequest request;
    request.set_upload(upload);
    v1::GetUploadResponse response;
    return stub->GetUpload(&context, request, &response).ok();
  };
  const std::string first = create();
  clock_.Advance(std::chrono::hours(23));
  // Expired uploads are removed before another is created.
  const std::string second = create();
  EXPECT_TRUE(exists(first));
  clock_.Advance(std::chrono::hours(2));
  create();
  EXPECT_FALSE(exists(first));
  EXPECT_TRUE(exists(second));
}

INSTANTIATE_TEST_SUITE_P(Jumps, ClockTest, ::testing::Values(-kTenYears, kTenYears),
                         [](const auto& jump) { return jump.param.count() < 0 ? "forward" : "back"; });

}  // namespace
}  // namespace fulcrum::testing
