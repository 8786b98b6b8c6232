// Access control: what each role may do, and how calls without a valid token fail.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/access_service.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "pipeline/server/access_control.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/http_get.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

using pipeline::Role;
using pipeline::TokenStore;
using ::testing::HasSubstr;

class AccessTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    std::filesystem::create_directories(folder_.File("data"));
    auto tokens = TokenStore::Open(folder_.File("data"));
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    tokens_ = *std::move(tokens);
    admin_ = *tokens_->Create("root", Role::kAdmin);
    ada_ = *tokens_->Create("ada", Role::kAnnotator);
    reader_ = *tokens_->Create("rita", Role::kReader);
    pipeline::DaemonOptions options = Options();
    options.ask_for_tokens = true;
    options.watch.address = "127.0.0.1:0";
    StartDaemon(options);
    DaemonClient admin = Client(admin_);
    ASSERT_TRUE(admin.Create(CloudSpec("clouds", 4)).ok());
    ASSERT_TRUE(admin.Start("clouds").ok());
  }

  grpc::StatusCode AcquireAs(const std::string& token, const std::string& annotator) const {
    DaemonClient client = Client(token);
    v1::AcquireTasksResponse tasks;
    return client.Acquire(TasksWanted("clouds", annotator, 1), &tasks).error_code();
  }

  std::unique_ptr<TokenStore> tokens_;
  std::string admin_, ada_, reader_;
};

TEST_F(AccessTest, StrangersAreTurnedAway) {
  for (const std::string token : {"", "fulcrum_forged", "x"}) {
    DaemonClient stranger = Client(token);
    EXPECT_EQ(stranger.Create(CloudSpec("other", 2)).error_code(), grpc::StatusCode::UNAUTHENTICATED) << token;
    EXPECT_EQ(AcquireAs(token, "ada"), grpc::StatusCode::UNAUTHENTICATED) << token;
  }
}

TEST_F(AccessTest, RolesHaveLimits) {
  DaemonClient annotator = Client(ada_), reader = Client(reader_);
  EXPECT_EQ(annotator.Stop("clouds").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(annotator.Create(CloudSpec("other", 2)).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(reader.Delete("clouds").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(reader.Get("clouds").name(), "clouds");
  EXPECT_EQ(AcquireAs(reader_, "rita"), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, AnAnnotatorActsOnlyAsItself) {
  EXPECT_EQ(AcquireAs(ada_, "bob"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(AcquireAs(ada_, ""), grpc::StatusCode::OK);
}

TEST_F(AccessTest, AWorkerWithATokenNeedNotSayWhoItIs) {
  std::string answers = "id,label\n";
  for (int item = 0; item < 400; ++item) absl::StrAppend(&answers, item, item % 2 == 0 ? ",neg\n" : ",pos\n");
  const ProcessResult worked = RunProcess(
      {FULCRUM_PROGRAM, "work", "--campaign", "clouds", "--oracle", folder_.Write("answers.csv", answers),
       "--token-file", folder_.Write("token", ada_), "--server", absl::StrCat("127.0.0.1:", daemon_->port())});
  EXPECT_EQ(worked.exit_code, 0) << worked.standard_error;
  EXPECT_THAT(worked.standard_output, HasSubstr("labels accepted"));
  DaemonClient admin = Client(admin_);
  const std::vector<v1::ExportedLabel> labels = admin.Export("clouds");
  EXPECT_FALSE(labels.empty());
  for (const v1::ExportedLabel& label : labels) EXPECT_EQ(label.annotator(), "ada");
}

TEST_F(AccessTest, ARevokedTokenOpensNothingAnyMore) {
  EXPECT_EQ(AcquireAs(ada_, "ada"), grpc::StatusCode::OK);
  ASSERT_TRUE(tokens_->Revoke("ada").ok());
  EXPECT_EQ(AcquireAs(ada_, "ada"), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, ARevocationEndsOpenStreamsAndReleasesTheLeases) {
  DaemonClient ada = Client(ada_), rita = Client(reader_), admin = Client(admin_);
  grpc::ClientContext work_context, watch_context;
  ada.Prepare(work_context);
  rita.Prepare(watch_context);
  const auto work = ada.labeling().Work(&work_context);
  v1::WorkRequest hello;
  hello.mutable_hello()->set_campaign("clouds");
  hello.mutable_hello()->set_credit(2);
  ASSERT_TRUE(work->Write(hello));
  v1::WorkResponse tasks;
  ASSERT_TRUE(work->Read(&tasks));
  ASSERT_GT(tasks.tasks().tasks_size(), 0);
  EXPECT_GT(admin.Get("clouds").live_leases(), 0);
  v1::WatchCampaignRequest request;
  request.set_campaign("clouds");
  const auto watch = rita.campaigns().WatchCampaign(&watch_context, request);
  v1::WatchCampaignResponse event;
  ASSERT_TRUE(watch->Read(&event));

  ASSERT_TRUE(tokens_->Revoke("ada").ok());
  // A label that is sent at once is not taken.
  v1::WorkRequest submit;
  *submit.mutable_submit() = AnswerOf("clouds", "ada", tasks.tasks().tasks(0), "pos");
  work->Write(submit);
  v1::WorkResponse response;
  while (work->Read(&response)) EXPECT_FALSE(response.has_submitted());
  EXPECT_EQ(work->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  while (admin.Get("clouds").live_leases() > 0) {
  }
  EXPECT_EQ(admin.Get("clouds").labels(), 0);

  ASSERT_TRUE(tokens_->Revoke("rita").ok());
  while (watch->Read(&event)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, AWorkerWhoWaitsGetsNothingAfterARevocation) {
  DaemonClient ada = Client(ada_), bob = Client(*tokens_->Create("bob", Role::kAnnotator)), admin = Client(admin_);
  v1::AcquireTasksResponse all;
  v1::AcquireTasksRequest everything = TasksWanted("clouds", "bob", 100);
  ASSERT_TRUE(bob.Acquire(everything, &all).ok());
  ASSERT_EQ(all.tasks_size(), 6);
  std::thread waiting([&ada] {
    v1::AcquireTasksRequest wanted = TasksWanted("clouds", "ada", 1);
    wanted.mutable_wait()->set_seconds(60);
    v1::AcquireTasksResponse tasks;
    EXPECT_EQ(ada.Acquire(wanted, &tasks).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(tasks.tasks_size(), 0);
  });
  // She waits by now.
  while (HttpGet(daemon_->watch_port(), "/metrics").find("fulcrum_waiting_workers 1") == std::string::npos) {
  }
  ASSERT_TRUE(tokens_->Revoke("ada").ok());
  EXPECT_EQ(AcquireAs(ada_, "ada"), grpc::StatusCode::UNAUTHENTICATED);
  v1::ReleaseTasksRequest release;
  release.set_campaign("clouds");
  release.set_annotator("bob");
  release.set_request_id(NewRequestId());
  for (const v1::Task& task : all.tasks()) {
    v1::LeaseRef& lease = *release.add_leases();
    lease.set_lease_id(task.lease_id());
    lease.set_epoch(task.epoch());
  }
  grpc::ClientContext context;
  bob.Prepare(context);
  v1::ReleaseTasksResponse released;
  ASSERT_TRUE(bob.labeling().ReleaseTasks(&context, release, &released).ok());
  waiting.join();
  EXPECT_EQ(admin.Get("clouds").live_leases(), 0);
  EXPECT_EQ(admin.Get("clouds").open_tasks(), 6);
}

TEST_F(AccessTest, OnlyTheOwnerMayReadTokensAndLabels) {
  namespace fs = std::filesystem;
  const fs::perms others = fs::perms::group_all | fs::perms::others_all;
  for (const char* name : {"data/tokens.db", "data/tokens.db-wal", "data/campaigns", "data/trash",
                           "data/campaigns/clouds", "data/campaigns/clouds/campaign.db"}) {
    EXPECT_EQ(fs::status(folder_.File(name)).permissions() & others, fs::perms::none) << name;
  }
}

TEST_F(AccessTest, WhoCallsTooOftenIsToldWhenToComeBackAndOthersAreNot) {
  StopDaemon();
  pipeline::DaemonOptions options = Options();
  options.ask_for_tokens = true;
  options.rate = {.calls_a_second = 0.01, .burst = 5};
  StartDaemon(options);
  DaemonClient reader = Client(reader_), admin = Client(admin_);
  v1::Campaign campaign;
  for (int call = 0; call < 5; ++call) EXPECT_TRUE(reader.TryGet("clouds", &campaign).ok()) << call;
  const grpc::Status refused = reader.TryGet("clouds", &campaign);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.ParseFromString(refused.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&retry));
  EXPECT_GT(retry.retry_delay().seconds(), 0);
  EXPECT_TRUE(admin.TryGet("clouds", &campaign).ok());
}

TEST_F(AccessTest, TokensAreNotInTheFile) {
  for (const char* name : {"data/tokens.db", "data/tokens.db-wal"}) {
    std::string content;
    if (FILE* file = std::fopen(folder_.File(name).c_str(), "rb")) {
      char buffer[4096];
      for (std::size_t count; (count = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) content.append(buffer, count);
      std::fclose(file);
    }
    EXPECT_EQ(content.find(admin_), std::string::npos) << name;
  }
}

TEST_F(AccessTest, AMessageThatIsTooLargeIsRefusedAndTheServerGoesOn) {
  DaemonClient admin = Client(admin_);
  v1::CampaignSpec spec = CloudSpec("large", 2);
  spec.set_question(std::string(5 << 20, 'x'));
  EXPECT_EQ(admin.Create(spec).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(admin.Get("clouds").name(), "clouds");
}

TEST(DaemonDoor, StaysShutToTheNetworkWithoutTlsAndTokens) {
  pipeline::DaemonOptions options;
  options.data_folder = "/nonexistent";
  options.server.address = "0.0.0.0:0";
  const auto open = pipeline::Daemon::Start(options);
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("without TLS"));
}

TEST_F(AccessTest, ARepeatedRequestForATokenGetsTheSameToken) {
  const auto stub = v1::AccessService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials()));
  const auto create = [&](const std::string& owner, const std::string& request_id, v1::CreateTokenResponse* response) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + admin_);
    v1::CreateTokenRequest request;
    request.set_owner(owner);
    request.set_role(v1::ROLE_ANNOTATOR);
    request.set_request_id(request_id);
    return stub->CreateToken(&context, request, response);
  };
  v1::CreateTokenResponse first, again, other;
  ASSERT_TRUE(create("bob", "t1", &first).ok());
  ASSERT_TRUE(create("bob", "t1", &again).ok()) << "the first answer may have been lost";
  EXPECT_EQ(first.secret(), again.secret());
  EXPECT_EQ(again.token().owner(), "bob");
  EXPECT_EQ(create("cid", "t1", &other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(create("bob", "t2", &other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(tokens_->Revoke("bob").ok());
  EXPECT_EQ(create("bob", "t1", &other).error_code(), grpc::StatusCode::ALREADY_EXISTS) << "it gives no access";
}

}  // namespace
}  // namespace fulcrum::testing
