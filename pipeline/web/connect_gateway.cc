#include <google/protobuf/any.pb.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/status.pb.h"
#include "nlohmann/json.hpp"
#include "pipeline/server/access_control.h"
#include "pipeline/text/status.h"
#include "pipeline/web/web_site.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

namespace pb = google::protobuf;

constexpr char kPackage[] = "fulcrum.v1.";
constexpr char kTypePrefix[] = "type.googleapis.com/";
constexpr unsigned char kCompressed = 1;
constexpr unsigned char kLast = 2;
constexpr std::size_t kEnvelopeBytes = 5;
// Longer than the longest wait of a call, which is a minute; a client that wants less says so.
constexpr std::chrono::minutes kUnaryTime{5};

struct CodeNames {
  const char* name;
  int http;
};

/// By the numbers of gRPC's codes.
constexpr std::array<CodeNames, 17> kCodes = {{{"ok", 200},
                                               {"canceled", 499},
                                               {"unknown", 500},
                                               {"invalid_argument", 400},
                                               {"deadline_exceeded", 504},
                                               {"not_found", 404},
                                               {"already_exists", 409},
                                               {"permission_denied", 403},
                                               {"resource_exhausted", 429},
                                               {"failed_precondition", 400},
                                               {"aborted", 409},
                                               {"out_of_range", 400},
                                               {"unimplemented", 501},
                                               {"internal", 500},
                                               {"unavailable", 503},
                                               {"data_loss", 500},
                                               {"unauthenticated", 401}}};

const CodeNames& NamesOf(const absl::Status& status) {
  const auto code = static_cast<std::size_t>(status.code());
  return kCodes[code < kCodes.size() ? code : 2];
}

absl::Status StatusOf(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return WithSerializedDetails(absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()),
                               status.error_details());
}

std::unique_ptr<pb::Message> NewMessage(const pb::Descriptor& type) {
  return std::unique_ptr<pb::Message>(pb::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

absl::StatusOr<grpc::ByteBuffer> RequestOf(const pb::MethodDescriptor& method, const std::string& json) {
  const std::unique_ptr<pb::Message> request = NewMessage(*method.input_type());
  // An empty body is a message without fields.
  const auto status = pb::util::JsonStringToMessage(json.empty() ? "{}" : json, request.get());
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the body is not a ", method.input_type()->full_name(),
                                                   " in JSON: ", std::string(status.message())));
  }
  const grpc::Slice slice(request->SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<std::string> JsonOf(const pb::MethodDescriptor& method, grpc::ByteBuffer& buffer) {
  const std::unique_ptr<pb::Message> response = NewMessage(*method.output_type());
  grpc::ProtoBufferReader reader(&buffer);
  if (!response->ParseFromZeroCopyStream(&reader)) return absl::InternalError("the response cannot be read");
  std::string json;
  const auto status = pb::util::MessageToJsonString(*response, &json);
  if (!status.ok()) return absl::InternalError(std::string(status.message()));
  return json;
}

void Prepare(const GatewayCall& call, grpc::ClientContext& context) {
  if (!call.authorization.empty()) context.AddMetadata("authorization", call.authorization);
  NameOrigin(context, "http:" + call.peer);
  if (call.timeout) context.set_deadline(std::chrono::system_clock::now() + *call.timeout);
}

/// A detail as JSON, for people who debug; Connect allows it next to the bytes. Null if its type is not known here.
nlohmann::json ReadableDetail(const std::string& type, const std::string& value) {
  const pb::Descriptor* const known = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(type);
  if (known == nullptr) return nullptr;
  const std::unique_ptr<pb::Message> message = NewMessage(*known);
  std::string json;
  if (!message->ParseFromString(value) || !pb::util::MessageToJsonString(*message, &json).ok()) return nullptr;
  return nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
}

std::string RpcPath(const pb::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

nlohmann::json ErrorOf(const absl::Status& status) {
  nlohmann::json error = {{"code", NamesOf(status).name}, {"message", std::string(status.message())}};
  google::rpc::Status rich;
  if (rich.ParseFromString(SerializeDetails(status))) {
    for (const pb::Any& detail : rich.details()) {
      std::string value;
      absl::Base64Escape(detail.value(), &value);
      // Connect has base64 without padding.
      while (absl::EndsWith(value, "=")) value.pop_back();
      const std::string type(absl::StripPrefix(detail.type_url(), kTypePrefix));
      nlohmann::json added = {{"type", type}, {"value", value}};
      if (nlohmann::json readable = ReadableDetail(type, detail.value()); readable.is_object()) {
        added["debug"] = std::move(readable);
      }
      error["details"].push_back(std::move(added));
    }
  }
  return error;
}

/// Text that is not UTF-8 is replaced: a message may quote what a client sent.
std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::string> OpenEnvelope(const std::string& body) {
  if (body.size() < kEnvelopeBytes) {
    return absl::InvalidArgumentError("the body is not an enveloped message: a byte of flags, four bytes of length");
  }
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(body[i]); };
  if ((byte(0) & kCompressed) != 0) return absl::UnimplementedError("compressed messages are not supported");
  std::size_t size = 0;
  for (std::size_t i = 1; i < kEnvelopeBytes; ++i) size = size << 8 | byte(i);
  if (size != body.size() - kEnvelopeBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the envelope says ", size, " bytes and the body has ",
                                                   body.size() - kEnvelopeBytes,
                                                   "; a call that returns a stream takes one message"));
  }
  return body.substr(kEnvelopeBytes);
}

class UnaryCall final : public RunningCall {
 public:
  void Cancel() override { context_.TryCancel(); }

  static void Start(const std::shared_ptr<UnaryCall>& call, grpc::GenericStub& stub, const GatewayCall& order,
                    ConnectGateway::UnaryDone done) {
    Prepare(order, call->context_);
    if (!order.timeout) call->context_.set_deadline(std::chrono::system_clock::now() + kUnaryTime);
    absl::StatusOr<grpc::ByteBuffer> request = RequestOf(*order.method, order.body);
    if (!request.ok()) return done(request.status());
    call->request_ = *std::move(request);
    stub.UnaryCall(&call->context_, RpcPath(*order.method), grpc::StubOptions(), &call->request_, &call->response_,
                   [call, method = order.method, done = std::move(done)](const grpc::Status& status) {
                     if (!status.ok()) return done(StatusOf(status));
                     done(JsonOf(*method, call->response_));
                   });
  }

 private:
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

/// Sends one request and reads responses at the pace of the client. Keeps itself alive until gRPC is done with it.
class StreamCall final : public RunningCall, public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamCall(const pb::MethodDescriptor* method, ConnectGateway::StreamHandlers handlers)
      : method_(method), handlers_(std::move(handlers)) {}

  void Start(grpc::GenericStub& stub, const GatewayCall& order, std::shared_ptr<StreamCall> self) {
    Prepare(order, context_);
    absl::StatusOr<std::string> body = OpenEnvelope(order.body);
    if (!body.ok()) return handlers_.on_end(body.status());
    absl::StatusOr<grpc::ByteBuffer> request = RequestOf(*method_, *body);
    if (!request.ok()) return handlers_.on_end(request.status());
    request_ = *std::move(request);
    self_ = std::move(self);
    stub.PrepareBidiStreamingCall(&context_, RpcPath(*method_), grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    // Reads are started by the connection; until the last of them the call is not over.
    AddHold();
    StartRead(&response_);
    StartCall();
  }

  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
    ReadNext();
  }
  void ReadNext() override {
    bool read = false;
    {
      // Not before the message that was read is handed on: the next one must not overtake it.
      const std::scoped_lock lock(mutex_);
      read = std::exchange(handed_on_, false);
    }
    if (read) StartRead(&response_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();
    absl::StatusOr<std::string> json = JsonOf(*method_, response_);
    if (!json.ok()) {
      broken_ = json.status();
      context_.TryCancel();
      return StartRead(&response_);
    }
    {
      // Either this or Cancel sees the other, so that the last read is started, and the call ends.
      const std::scoped_lock lock(mutex_);
      handed_on_ = true;
      if (!cancelled_) return handlers_.on_message(Envelope(*json, /*last=*/false));
    }
    ReadNext();
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<StreamCall> self = std::move(self_);
    handlers_.on_end(broken_.ok() ? StatusOf(status) : broken_);
    handlers_ = {};
  }

 private:
  const pb::MethodDescriptor* const method_;
  ConnectGateway::StreamHandlers handlers_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  absl::Status broken_;
  std::mutex mutex_;
  bool handed_on_ = false;  // a message was handed on and the next read is not started
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<StreamCall> self_;
};

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  return NamesOf(status).http;
}

std::string ErrorJson(const absl::Status& status) {
  return Dump(ErrorOf(status));
}

std::string Envelope(const std::string& json, bool last) {
  std::string text(1, last ? static_cast<char>(kLast) : '\0');
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(json.size() >> shift & 0xFF));
  return text + json;
}

std::string EndOfStream(const absl::Status& status) {
  return Envelope(status.ok() ? "{}" : Dump({{"error", ErrorOf(status)}}), /*last=*/true);
}

const pb::MethodDescriptor* ConnectGateway::Find(const std::string& path) {
  absl::string_view rest = path;
  if (!absl::ConsumePrefix(&rest, "/") || !absl::StartsWith(rest, kPackage)) return nullptr;
  const std::size_t slash = rest.find('/');
  if (slash == absl::string_view::npos) return nullptr;
  const auto* const service =
      pb::DescriptorPool::generated_pool()->FindServiceByName(std::string(rest.substr(0, slash)));
  return service == nullptr ? nullptr : service->FindMethodByName(std::string(rest.substr(slash + 1)));
}

absl::Status ConnectGateway::CheckCallable(const pb::MethodDescriptor& method) {
  if (!method.client_streaming()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(method.full_name(), " takes a stream of requests and needs gRPC: use the port of gRPC"));
}

std::shared_ptr<RunningCall> ConnectGateway::RunUnary(GatewayCall call, UnaryDone done) {
  const auto running = std::make_shared<UnaryCall>();
  UnaryCall::Start(running, stub_, call, std::move(done));
  return running;
}

std::shared_ptr<RunningCall> ConnectGateway::RunStream(GatewayCall call, StreamHandlers handlers) {
  const auto running = std::make_shared<StreamCall>(call.method, std::move(handlers));
  running->Start(stub_, call, running);
  return running;
}

}  // namespace fulcrum::pipeline
