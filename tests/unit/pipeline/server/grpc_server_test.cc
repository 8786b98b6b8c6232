#include "pipeline/server/grpc_server.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kServerService[] = "fulcrum.v1.ServerService";

std::vector<RegisteredService> VersionService() {
  return {{kServerService, std::make_shared<ServerService>(
                               "1.2.3", std::vector<LibraryVersion>{{"SQLite", "3.40.1"}, {"oneTBB", "2021.8"}})}};
}

std::unique_ptr<GrpcServer> StartOrFail(const GrpcServerOptions& options, std::vector<RegisteredService> services) {
  auto server = GrpcServer::Start(options, std::move(services));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

std::shared_ptr<grpc::Channel> Connect(const GrpcServer& server) {
  grpc::ChannelArguments arguments;
  // Else channels to one address share a connection, and a test would see another one's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server.port()), grpc::InsecureChannelCredentials(),
                                   arguments);
}

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};

/// Calls a method of a service whose generated code Debian does not ship, with bytes for messages.
RawAnswer CallRaw(const GrpcServer& server, const std::string& method, const std::string& request) {
  grpc::GenericStub stub(Connect(server));
  grpc::ClientContext context;
  const grpc::Slice request_slice(request);
  const grpc::ByteBuffer request_buffer(&request_slice, 1);
  grpc::ByteBuffer response_buffer;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request_buffer, &response_buffer,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  RawAnswer answer{done.get_future().get(), ""};
  std::vector<grpc::Slice> slices;
  if (answer.status.ok() && response_buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) answer.bytes.append(slice.begin(), slice.end());
  }
  return answer;
}

/// grpc.health.v1: HealthCheckRequest{string service = 1}, HealthCheckResponse{enum status = 1}.
std::string Health(const GrpcServer& server, const std::string& service) {
  const std::string request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const RawAnswer answer = CallRaw(server, "/grpc.health.v1.Health/Check", request);
  if (!answer.status.ok()) return answer.status.error_code() == grpc::StatusCode::NOT_FOUND ? "NOT_FOUND" : "error";
  if (answer.bytes == "\x08\x01") return "SERVING";
  return answer.bytes == "\x08\x02" ? "NOT_SERVING" : "another answer";
}

/// One question to the reflection service, in text form, and its answer likewise. The library of the reflection
/// service brings the messages' descriptors, though not their headers.
std::string Reflect(const GrpcServer& server, const std::string& question) {
  const auto make = [](const std::string& name) {
    const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
    const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
    return std::unique_ptr<google::protobuf::Message>(prototype->New());
  };
  const auto request = make("grpc.reflection.v1alpha.ServerReflectionRequest");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(question, request.get()));
  const RawAnswer answer =
      CallRaw(server, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", request->SerializeAsString());
  if (!answer.status.ok()) return "error " + std::to_string(answer.status.error_code());
  const auto response = make("grpc.reflection.v1alpha.ServerReflectionResponse");
  EXPECT_TRUE(response->ParseFromString(answer.bytes));
  return response->DebugString();
}

TEST(GrpcServerTest, AnswersOnAPortOfItsOwnChoosing) {
  const auto server = StartOrFail({}, VersionService());
  ASSERT_NE(server, nullptr);
  EXPECT_GT(server->port(), 0);

  grpc::ClientContext context;
  v1::GetVersionResponse response;
  const grpc::Status status = v1::ServerService::NewStub(Connect(*server))->GetVersion(&context, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.version(), "1.2.3");
  ASSERT_EQ(response.components_size(), 2);
  EXPECT_EQ(response.components(0).name(), "SQLite");
  EXPECT_EQ(response.components(0).version(), "3.40.1");
  EXPECT_EQ(response.components(1).name(), "oneTBB");
  EXPECT_TRUE(server->Stop(milliseconds(1000)).ok());
}

TEST(GrpcServerTest, HealthIsToldServiceByService) {
  const auto server = StartOrFail({}, VersionService());
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Health(*server, ""), "SERVING");
  EXPECT_EQ(Health(*server, kServerService), "SERVING");
  EXPECT_EQ(Health(*server, "fulcrum.v1.NoSuchService"), "NOT_FOUND");

  ASSERT_TRUE(server->SetServing(kServerService, false).ok());
  EXPECT_EQ(Health(*server, kServerService), "NOT_SERVING");
  EXPECT_EQ(Health(*server, ""), "SERVING");
  ASSERT_TRUE(server->SetServing("", false).ok());
  EXPECT_EQ(Health(*server, ""), "NOT_SERVING");
  ASSERT_TRUE(server->SetServing(kServerService, true).ok());
  EXPECT_EQ(Health(*server, kServerService), "SERVING");
  EXPECT_EQ(server->SetServing("fulcrum.v1.NoSuchService", true).code(), absl::StatusCode::kNotFound);
}

TEST(GrpcServerTest, ReflectionListsServicesAndTheirMethods) {
  const auto server = StartOrFail({.reflection = true}, VersionService());
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(Reflect(*server, "list_services: ''"), HasSubstr(kServerService));
  EXPECT_THAT(Reflect(*server, "file_containing_symbol: 'fulcrum.v1.ServerService'"),
              AllOf(HasSubstr("fulcrum/v1/server_service.proto"), HasSubstr("GetVersion")));
}

TEST(GrpcServerTest, ReflectionIsOffUnlessAskedForEvenBesideAServerThatHasIt) {
  const auto open = StartOrFail({.reflection = true}, VersionService());
  const auto closed = StartOrFail({}, VersionService());
  ASSERT_TRUE(open != nullptr && closed != nullptr);
  const std::string unimplemented = "error " + std::to_string(grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Reflect(*closed, "list_services: ''"), unimplemented);
  EXPECT_THAT(Reflect(*open, "list_services: ''"), Not(HasSubstr("error")));
}

TEST(GrpcServerTest, OversizedRequestIsRefusedAndTheNextIsAnswered) {
  const auto server = StartOrFail({}, VersionService());
  ASSERT_NE(server, nullptr);
  const auto stub = v1::ServerService::NewStub(Connect(*server));
  const auto call_with = [&](std::size_t bytes) {
    v1::GetVersionRequest request;
    request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(1000, std::string(bytes, 'x'));
    grpc::ClientContext context;
    v1::GetVersionResponse response;
    return stub->GetVersion(&context, request, &response).error_code();
  };
  EXPECT_EQ(call_with(4 * 1024 * 1024 - 100), grpc::StatusCode::OK);
  EXPECT_EQ(call_with(4 * 1024 * 1024), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call_with(10), grpc::StatusCode::OK);
}

TEST(GrpcServerTest, ServerWithoutServicesIsRefused) {
  EXPECT_EQ(GrpcServer::Start({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GrpcServerTest, AddressInUseIsNamed) {
  const auto first = StartOrFail({}, VersionService());
  ASSERT_NE(first, nullptr);
  const std::string address = "127.0.0.1:" + std::to_string(first->port());
  const auto second = GrpcServer::Start({.address = address}, VersionService());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

}  // namespace
}  // namespace fulcrum::pipeline
