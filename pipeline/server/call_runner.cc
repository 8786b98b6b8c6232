// What the unary calls of administrators and readers have in common: who may make them, where they run, and the log.

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pipeline/server/campaign_service.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1000;
constexpr std::size_t kLongestReason = 2000;

}  // namespace

std::size_t PageSize(int asked) {
  return static_cast<std::size_t>(asked <= 0 ? kDefaultPage : std::min(asked, kLargestPage));
}

absl::StatusOr<ChangeOrder> OrderOf(const Caller& caller, const std::string& request_id, const std::string& reason) {
  if (!request_id.empty()) FULCRUM_RETURN_IF_ERROR(CheckRequest(request_id, 0));
  if (reason.size() > kLongestReason) {
    return absl::InvalidArgumentError(
        absl::StrCat("'reason' has ", reason.size(), " bytes; at most ", kLongestReason, " are allowed"));
  }
  return ChangeOrder{
      .by = caller.name.empty() ? kUnnamedAdmin : caller.name, .request_id = request_id, .reason = reason};
}

namespace {

/// The text of a field; empty if the message has no such field.
std::string TextField(const google::protobuf::Message& message, const char* name) {
  const auto* const field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

CallText TextOf(const google::protobuf::Message& request) {
  const auto* const spec = request.GetDescriptor()->FindFieldByName("spec");
  std::string campaign = TextField(request, "campaign");
  if (campaign.empty() && spec != nullptr) {
    campaign = TextField(request.GetReflection()->GetMessage(request, spec), "name");
  }
  return {.call = std::string(absl::StripSuffix(request.GetDescriptor()->name(), "Request")),
          .campaign = campaign,
          .request_id = TextField(request, "request_id")};
}

}  // namespace

void LogAdminCall(const grpc::ServerContextBase& context, const Caller& caller, const CallText& text,
                  const absl::Status& status) {
  Log(LogLevel::kInfo, "admin call",
      {{"call", text.call},
       {"campaign", text.campaign},
       {"by", caller.name.empty() ? kUnnamedAdmin : caller.name},
       {"from", OriginOf(context)},
       {"request_id", text.request_id},
       {"result", status.ok() ? "OK" : status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
}

namespace {

/// Lives until the call is done.
class CancellableCall final : public grpc::ServerUnaryReactor {
 public:
  std::stop_token token() const { return stop_.get_token(); }
  void OnCancel() override { stop_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  std::stop_source stop_;
};

}  // namespace

grpc::ServerUnaryReactor* CallRunner::Run(grpc::CallbackServerContext* context, CallerRole role,
                                          const google::protobuf::Message& request, Act act) const {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  RunOn(reactor, context, role, request, std::move(act));
  return reactor;
}

grpc::ServerUnaryReactor* CallRunner::RunCancellable(grpc::CallbackServerContext* context, CallerRole role,
                                                     const google::protobuf::Message& request, Act act) const {
  auto* const reactor = new CancellableCall();
  RunOn(reactor, context, role, request, [stop = reactor->token(), act = std::move(act)](const Caller& caller) {
    try {
      const StopScope scope(stop);
      ThrowIfStopRequested();  // it may have waited for a thread
      return act(caller);
    } catch (const StoppedOnRequest&) {
      return absl::CancelledError("the caller has gone, or the server is stopping");
    }
  });
  return reactor;
}

void CallRunner::RunOn(grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context, CallerRole role,
                       const google::protobuf::Message& request, Act act) const {
  const absl::StatusOr<Caller> caller = access_.Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) {
    status = role == CallerRole::kAdmin ? AccessControl::RequireAdmin(*caller) : AccessControl::RequireReading(*caller);
  }
  if (!status.ok()) {
    if (caller.ok()) access_.LogRefusal(*context, caller->name, status);
    return reactor->Finish(ToGrpcStatus(status));
  }
  const auto run = [context, reactor, role, &request, caller = *caller, act = std::move(act)] {
    const absl::Status result = RunGuarded([&] { return act(caller); });
    if (absl::IsInternal(result)) {
      Log(LogLevel::kError, "call failed",
          {{"call", request.GetDescriptor()->name()}, {"reason", std::string(result.message())}});
    }
    if (role == CallerRole::kAdmin) LogAdminCall(*context, caller, TextOf(request), result);
    reactor->Finish(ToGrpcStatus(result));
  };
  if (!executor_.Submit(run)) reactor->Finish(ToGrpcStatus(Executor::Busy()));
}

}  // namespace fulcrum::pipeline
