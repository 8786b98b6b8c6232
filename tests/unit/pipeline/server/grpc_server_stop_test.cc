// How a server ends: calls that finish in time, calls that have to be cancelled, and one that ignores even that.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/server/grpc_server.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// A call that ends when it is told to, or when it is cancelled if it listens to that.
class HeldCall final : public grpc::ServerUnaryReactor {
 public:
  explicit HeldCall(bool heeds_cancellation) : heeds_cancellation_(heeds_cancellation) {}

  void OnCancel() override {
    cancelled_.set_value();
    if (heeds_cancellation_) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { done_.set_value(); }

  std::future<void> cancelled() { return cancelled_.get_future(); }
  std::future<void> done() { return done_.get_future(); }

 private:
  const bool heeds_cancellation_;
  std::promise<void> cancelled_;
  std::promise<void> done_;
};

class HoldingService final : public v1::ServerService::CallbackService {
 public:
  explicit HoldingService(HeldCall* call) : call_(call) {}

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext*, const v1::GetVersionRequest*,
                                       v1::GetVersionResponse*) override {
    arrived_.set_value();
    return call_;
  }
  std::future<void> arrived() { return arrived_.get_future(); }

 private:
  HeldCall* call_;
  std::promise<void> arrived_;
};

/// A server with one call on its way, which the service has received.
class GrpcServerStopTest : public ::testing::Test {
 protected:
  void StartWithACall(HeldCall* call, const GrpcServerOptions& options = {}) {
    const auto service = std::make_shared<HoldingService>(call);
    auto server = GrpcServer::Start(options, {{"fulcrum.v1.ServerService", service}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto channel =
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials());
    answer_ = std::async(std::launch::async, [channel] {
      grpc::ClientContext context;
      v1::GetVersionResponse response;
      return v1::ServerService::NewStub(channel)->GetVersion(&context, {}, &response).error_code();
    });
    service->arrived().wait();
  }

  std::unique_ptr<GrpcServer> server_;
  std::future<grpc::StatusCode> answer_;
};

TEST_F(GrpcServerStopTest, RunningCallMayFinishAndItsAnswerArrives) {
  HeldCall call(/*heeds_cancellation=*/true);
  StartWithACall(&call);
  auto stopped = std::async(std::launch::async, [this] { return server_->Stop(std::chrono::minutes(5)); });
  call.Finish(grpc::Status::OK);
  EXPECT_TRUE(stopped.get().ok());
  EXPECT_EQ(answer_.get(), grpc::StatusCode::OK);
}

TEST_F(GrpcServerStopTest, CallThatOutlastsTheGraceIsCancelled) {
  HeldCall call(/*heeds_cancellation=*/true);
  auto cancelled = call.cancelled();
  StartWithACall(&call);
  const absl::Status status = server_->Stop(milliseconds(0));
  EXPECT_TRUE(status.ok()) << status;
  cancelled.wait();
  EXPECT_NE(answer_.get(), grpc::StatusCode::OK);
}

TEST_F(GrpcServerStopTest, CallThatIgnoresCancellationIsReportedInsteadOfWaitedFor) {
  HeldCall call(/*heeds_cancellation=*/false);
  auto done = call.done();
  StartWithACall(&call, {.cancellation_time = milliseconds(1)});
  const absl::Status status = server_->Stop(milliseconds(0));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("end the process"));

  call.Finish(grpc::Status::OK);
  done.wait();
  EXPECT_TRUE(server_->Stop(milliseconds(60'000)).ok());
}

TEST_F(GrpcServerStopTest, StoppedServerAnswersNoCallAndStopsAgainAtOnce) {
  auto started = GrpcServer::Start({}, {{"fulcrum.v1.ServerService", std::make_shared<v1::ServerService::Service>()}});
  ASSERT_TRUE(started.ok()) << started.status();
  const std::string address = "127.0.0.1:" + std::to_string((*started)->port());
  EXPECT_TRUE((*started)->Stop(milliseconds(1000)).ok());
  EXPECT_TRUE((*started)->Stop(milliseconds(1000)).ok());

  grpc::ClientContext context;
  v1::GetVersionResponse response;
  const auto stub = v1::ServerService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  EXPECT_EQ(stub->GetVersion(&context, {}, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace fulcrum::pipeline
