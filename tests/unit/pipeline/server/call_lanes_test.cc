// Calls that take long do not hold up those that are quick, nor each other.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "pipeline/server/campaign_service.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

/// Services without any campaign: every call is answered with NOT_FOUND as soon as its lane has a thread for it.
class CallLanesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto campaigns = CampaignRegistry::Open({.data_folder = folder_.path()});
    ASSERT_TRUE(campaigns.ok()) << campaigns.status();
    campaigns_ = *std::move(campaigns);
    auto operations = CampaignOperations::Open(folder_.path(), *campaigns_);
    ASSERT_TRUE(operations.ok()) << operations.status();
    operations_ = *std::move(operations);
    annotator_service_ = std::make_unique<AnnotatorService>(*campaigns_, access_, lanes_);
    campaign_service_ = std::make_unique<CampaignService>(*campaigns_, *operations_, access_, lanes_);
    grpc::ServerBuilder builder;
    builder.RegisterService(annotator_service_.get());
    builder.RegisterService(campaign_service_.get());
    server_ = builder.BuildAndStart();
    annotators_ = v1::AnnotatorService::NewStub(server_->InProcessChannel({}));
    stub_ = v1::CampaignService::NewStub(server_->InProcessChannel({}));
  }
  void TearDown() override {
    open_.set_value();
    server_->Shutdown();
  }

  /// Its only thread waits for the end of the test.
  void Hold(Executor& executor) {
    std::promise<void> begun;
    ASSERT_TRUE(executor.Submit([&] {
      begun.set_value();
      gate_.wait();
    }));
    begun.get_future().wait();
  }

  template <typename Request, typename Response, typename Stub>
  static grpc::StatusCode Call(Stub& stub,
                               grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    Request request;
    request.set_campaign("none");
    Response response;
    return (stub.*method)(&context, request, &response).error_code();
  }

  const testing::TemporaryDirectory folder_;
  const AccessControl access_{nullptr};
  std::promise<void> open_;
  const std::shared_future<void> gate_ = open_.get_future().share();
  Executor quick_{1, 10}, files_{1, 10}, heavy_{1, 10}, closing_{1, 10}, search_{1, 10};
  const CallLanes lanes_{quick_, files_, heavy_, closing_, search_};
  std::unique_ptr<CampaignRegistry> campaigns_;
  std::unique_ptr<CampaignOperations> operations_;
  std::unique_ptr<AnnotatorService> annotator_service_;
  std::unique_ptr<CampaignService> campaign_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::AnnotatorService::Stub> annotators_;
  std::unique_ptr<v1::CampaignService::Stub> stub_;
};

TEST_F(CallLanesTest, LongCallsDoNotHoldUpQuickOnes) {
  for (Executor* const lane : {&files_, &heavy_, &closing_, &search_}) Hold(*lane);
  EXPECT_EQ(Call(*stub_, &v1::CampaignService::Stub::GetCampaign), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*stub_, &v1::CampaignService::Stub::PauseCampaign), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*annotators_, &v1::AnnotatorService::Stub::PauseAnnotator), grpc::StatusCode::NOT_FOUND);
}

TEST_F(CallLanesTest, ReportsAndDeletionsDoNotTakeTheThreadsOfQuickCalls) {
  Hold(quick_);
  EXPECT_EQ(Call(*annotators_, &v1::AnnotatorService::Stub::ListAnnotators), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*annotators_, &v1::AnnotatorService::Stub::ListLabelErrors), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*stub_, &v1::CampaignService::Stub::DeleteCampaign), grpc::StatusCode::NOT_FOUND);
}

TEST_F(CallLanesTest, ASearchForLabelErrorsHoldsUpNoPredictions) {
  Hold(search_);
  EXPECT_EQ(Call(*annotators_, &v1::AnnotatorService::Stub::ListAnnotators), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*stub_, &v1::CampaignService::Stub::Predict), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace fulcrum::pipeline
