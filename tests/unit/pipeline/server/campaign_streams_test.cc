// Streams end with an answer: when the work for them throws, and as soon as the caller's token is revoked.
#include "pipeline/server/streams/campaign_streams.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/server/grpc_server.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

/// An upload whose handling is up to the test.
class TestUpload final : public UploadStream<v1::AppendItemsRequest> {
 public:
  struct Handling {
    std::function<absl::Status(const v1::AppendItemsRequest&)> take = [](const auto&) { return absl::OkStatus(); };
    std::function<absl::Status()> complete = [] { return absl::OkStatus(); };
    std::function<void()> release = [] {};
  };
  TestUpload(Executor& executor, StreamCaller caller, Handling handling)
      : UploadStream(executor, std::move(caller)), handling_(std::move(handling)) {}

 private:
  absl::Status Take(const v1::AppendItemsRequest& message) override { return handling_.take(message); }
  absl::Status Complete() override { return handling_.complete(); }
  void Release() override { handling_.release(); }

  const Handling handling_;
};

class StreamsTest : public ::testing::Test {
 protected:
  using Pages = PagedStream<v1::ExportLabelsResponse>;

  class Service final : public v1::CampaignService::CallbackService {
   public:
    explicit Service(StreamsTest& test) : test_(test) {}
    grpc::ServerWriteReactor<v1::ExportLabelsResponse>* ExportLabels(grpc::CallbackServerContext*,
                                                                     const v1::ExportLabelsRequest*) override {
      return Pages::Begin(test_.executor_, test_.Ada(), test_.next_page_, test_.first_executor_);
    }
    grpc::ServerReadReactor<v1::AppendItemsRequest>* AppendItems(grpc::CallbackServerContext*,
                                                                 v1::AppendItemsResponse*) override {
      return UploadStream<v1::AppendItemsRequest>::Begin(
          std::make_shared<TestUpload>(test_.executor_, test_.Ada(), test_.handling_));
    }

   private:
    StreamsTest& test_;
  };

  void SetUp() override {
    auto tokens = TokenStore::Open(folder_.path());
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    tokens_ = *std::move(tokens);
    const std::string token = *tokens_->Create("ada", Role::kAdmin);
    ada_.name = "ada";
    ada_.token_hash = tokens_->Find(token)->hash;
    access_ = std::make_unique<AccessControl>(tokens_.get(), RateLimit{},
                                              [this](const std::string&) { revoked_.set_value(); });
    auto server = GrpcServer::Start({.address = "127.0.0.1:0"},
                                    {{"fulcrum.v1.CampaignService", std::make_shared<Service>(*this)}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::CampaignService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
  }

  StreamCaller Ada() const { return {*access_, ada_}; }

  /// Returns when the streams of the token have been told.
  void Revoke() {
    ASSERT_TRUE(tokens_->Revoke("ada").ok());
    revoked_.get_future().wait();
  }

  static std::vector<v1::ExportLabelsResponse> OnePage() { return std::vector<v1::ExportLabelsResponse>(1); }

  const testing::TemporaryDirectory folder_;
  std::unique_ptr<TokenStore> tokens_;
  Caller ada_;
  std::promise<void> revoked_;
  std::unique_ptr<AccessControl> access_;
  Executor executor_{1, 16};
  Executor* first_executor_ = nullptr;
  Pages::NextPage next_page_;
  TestUpload::Handling handling_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::CampaignService::Stub> stub_;
};

TEST_F(StreamsTest, WhatAPageThrowsIsTheStatusOfTheCall) {
  const auto status_of = [&](Pages::NextPage next_page) {
    next_page_ = std::move(next_page);
    grpc::ClientContext context;
    const auto stream = stub_->ExportLabels(&context, {});
    v1::ExportLabelsResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  const grpc::Status thrown = status_of([]() -> absl::StatusOr<Pages::Page> { throw std::runtime_error("torn page"); });
  EXPECT_EQ(thrown.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(thrown.error_message(), HasSubstr("torn page"));
  EXPECT_EQ(status_of([]() -> absl::StatusOr<Pages::Page> { throw std::bad_alloc(); }).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Of no standard type.
  EXPECT_EQ(status_of([]() -> absl::StatusOr<Pages::Page> { throw 1; }).error_code(), grpc::StatusCode::INTERNAL);
  // The thread of the executor is still there.
  EXPECT_TRUE(status_of([]() -> absl::StatusOr<Pages::Page> { return Pages::Page(); }).ok());
}

TEST_F(StreamsTest, AFullQueueDelaysAStreamThatHasBegunAndDoesNotEndIt) {
  // The only thread is held, and the queue behind it is full.
  std::promise<void> begun, open;
  executor_.Submit([&] {
    begun.set_value();
    open.get_future().wait();
  });
  begun.get_future().wait();
  while (executor_.Submit([] {})) {
  }
  const std::size_t full = executor_.queued();
  Executor first(1, 1);
  first_executor_ = &first;
  int pages = 0;
  next_page_ = [&]() -> absl::StatusOr<Pages::Page> { return ++pages > 2 ? Pages::Page() : OnePage(); };
  std::atomic<bool> ended = false;
  int read = 0;
  grpc::Status status;
  std::jthread reader([&] {
    grpc::ClientContext context;
    const auto stream = stub_->ExportLabels(&context, {});
    for (v1::ExportLabelsResponse response; stream->Read(&response);) ++read;
    status = stream->Finish();
    ended = true;
  });
  while (!ended && executor_.queued() <= full) std::this_thread::yield();
  open.set_value();
  reader.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(read, 2);
}

TEST_F(StreamsTest, ALongFirstPageDoesNotHoldUpTheOthers) {
  Executor longer(1, 1);
  first_executor_ = &longer;
  const auto read_all = [&] {
    grpc::ClientContext context;
    const auto stream = stub_->ExportLabels(&context, {});
    for (v1::ExportLabelsResponse response; stream->Read(&response);) {
    }
    return stream->Finish();
  };
  std::promise<void> begun, open;
  next_page_ = [&]() -> absl::StatusOr<Pages::Page> {
    begun.set_value();
    open.get_future().wait();
    return Pages::Page();
  };
  std::jthread first([&] { EXPECT_TRUE(read_all().ok()); });
  begun.get_future().wait();
  first_executor_ = nullptr;
  next_page_ = [] { return Pages::Page(); };
  EXPECT_TRUE(read_all().ok()) << "the other executor is free";
  open.set_value();
}

TEST_F(StreamsTest, ACallerHoldsFewStreamsAtATime) {
  std::vector<std::shared_ptr<const void>> held;
  while (held.size() < static_cast<std::size_t>(AccessControl::kMostHeldStreams)) {
    const auto stream = access_->HoldStream(ada_);
    ASSERT_TRUE(stream.ok()) << stream.status();
    held.push_back(*stream);
  }
  EXPECT_EQ(access_->HoldStream(ada_).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(access_->HoldStream({.name = "bob", .token_hash = "other"}).ok()) << "others have their own";
  held.pop_back();
  EXPECT_TRUE(access_->HoldStream(ada_).ok());
}

TEST_F(StreamsTest, WhatAnUploadThrowsIsTheStatusOfTheCallAndReleasesWhatItHolds) {
  int held = 0;
  const auto upload = [&] {
    grpc::ClientContext context;
    v1::AppendItemsResponse response;
    const auto stream = stub_->AppendItems(&context, &response);
    stream->Write({});
    stream->WritesDone();
    return stream->Finish();
  };
  handling_.release = [&held] { --held; };
  handling_.take = [&held](const auto&) -> absl::Status {
    ++held;
    throw std::bad_alloc();
  };
  EXPECT_EQ(upload().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(held, 0);
  handling_.take = [&held](const auto&) {
    ++held;
    return absl::OkStatus();
  };
  handling_.complete = []() -> absl::Status { throw std::runtime_error("lost its way"); };
  EXPECT_THAT(upload().error_message(), HasSubstr("lost its way"));
  EXPECT_EQ(held, 0);
  handling_.complete = [] { return absl::OkStatus(); };
  EXPECT_TRUE(upload().ok());
}

TEST_F(StreamsTest, NothingIsSentAfterARevocation) {
  std::promise<void> resume;
  int pages = 0;
  next_page_ = [&]() -> absl::StatusOr<Pages::Page> {
    if (++pages == 2) resume.get_future().wait();
    return OnePage();
  };
  grpc::ClientContext context;
  const auto stream = stub_->ExportLabels(&context, {});
  v1::ExportLabelsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  Revoke();
  resume.set_value();
  EXPECT_FALSE(stream->Read(&response)) << "the second page was made before the revocation, and sent after it";
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(StreamsTest, ARevocationEndsAnUploadWhoseClientSaysNothing) {
  std::promise<void> taken, released;
  handling_.take = [&taken](const auto&) {
    taken.set_value();
    return absl::OkStatus();
  };
  handling_.release = [&released] { released.set_value(); };
  grpc::ClientContext context;
  v1::AppendItemsResponse response;
  const auto stream = stub_->AppendItems(&context, &response);
  ASSERT_TRUE(stream->Write({}));
  taken.get_future().wait();
  Revoke();
  released.get_future().wait();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(StreamsTest, ARevocationDuringAnUploadEndsItBeforeItIsStored) {
  std::promise<void> taken, resume;
  bool stored = false;
  handling_.take = [&](const auto&) {
    taken.set_value();
    resume.get_future().wait();
    return absl::OkStatus();
  };
  handling_.complete = [&stored] {
    stored = true;
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  v1::AppendItemsResponse response;
  const auto stream = stub_->AppendItems(&context, &response);
  ASSERT_TRUE(stream->Write({}));
  taken.get_future().wait();
  stream->WritesDone();
  Revoke();
  resume.set_value();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(stored);
}

TEST_F(StreamsTest, AStreamThatOpensAfterTheRevocationEnds) {
  Revoke();
  absl::Status why;
  const auto open = access_->NoteStream(ada_, [&why](const absl::Status& status) { why = status; });
  EXPECT_EQ(why.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(access_->CheckToken(ada_).code(), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace fulcrum::pipeline
