#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "fulcrum/v1/report_service.grpc.pb.h"
#include "pipeline/server/campaign_service.h"
#include "stages/core/parallel.h"

namespace fulcrum::pipeline {
namespace {

/// Computes until it is told to stop, and says when it begins and how it ended.
class EndlessReports final : public v1::ReportService::CallbackService {
 public:
  explicit EndlessReports(const CallRunner& calls) : calls_(calls) {}

  grpc::ServerUnaryReactor* GetPoolMap(grpc::CallbackServerContext* context, const v1::GetPoolMapRequest* request,
                                       v1::GetPoolMapResponse* /*response*/) override {
    return calls_.RunCancellable(context, CallerRole::kReader, *request, [this](const Caller&) -> absl::Status {
      begun_.set_value();
      try {
        for (;;) ThrowIfStopRequested();
      } catch (const StoppedOnRequest&) {
        stopped_.set_value();
        throw;
      }
    });
  }

  std::promise<void> begun_, stopped_;

 private:
  const CallRunner& calls_;
};

class CallRunnerTest : public ::testing::Test {
 protected:
  CallRunnerTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&reports_);
    server_ = builder.BuildAndStart();
    stub_ = v1::ReportService::NewStub(server_->InProcessChannel({}));
    call_ = std::jthread([this] { status_.set_value(stub_->GetPoolMap(&context_, {}, &response_)); });
    reports_.begun_.get_future().wait();
  }

  const AccessControl access_{nullptr};
  Executor executor_{1, 10};
  const CallRunner calls_{access_, executor_};
  EndlessReports reports_{calls_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ReportService::Stub> stub_;
  grpc::ClientContext context_;
  v1::GetPoolMapResponse response_;
  std::promise<grpc::Status> status_;
  std::jthread call_;
};

TEST_F(CallRunnerTest, AComputationEndsWhenItsCallerHasGone) {
  context_.TryCancel();
  reports_.stopped_.get_future().wait();
  EXPECT_EQ(status_.get_future().get().error_code(), grpc::StatusCode::CANCELLED);
  server_->Shutdown();
}

TEST_F(CallRunnerTest, AComputationEndsWhenTheServerStops) {
  server_->Shutdown(std::chrono::system_clock::now());
  reports_.stopped_.get_future().wait();
  EXPECT_FALSE(status_.get_future().get().ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
