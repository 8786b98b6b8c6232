#include "pipeline/text/status.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/support/status.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "pipeline/text/text_sink.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kDomain[] = "fulcrum";

std::string TypeUrl(const google::protobuf::Message& message) {
  return absl::StrCat("type.googleapis.com/", message.GetTypeName());
}

absl::Status With(absl::Status status, const google::protobuf::Message& detail) {
  status.SetPayload(TypeUrl(detail), absl::Cord(detail.SerializeAsString()));
  return status;
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() = TimeUtil::MillisecondsToDuration(delay.count());
  return With(std::move(status), info);
}

std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status) {
  google::rpc::RetryInfo info;
  const auto payload = status.GetPayload(TypeUrl(info));
  if (!payload || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(info.retry_delay()));
}

absl::Status WithReason(absl::Status status, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(kDomain);
  return With(std::move(status), info);
}

absl::Status WithFieldProblems(absl::Status status, const std::vector<FieldProblem>& problems) {
  google::rpc::BadRequest request;
  for (const FieldProblem& problem : problems) {
    auto& violation = *request.add_field_violations();
    violation.set_field(problem.field);
    violation.set_description(problem.what);
  }
  return With(std::move(status), request);
}

std::string SerializeDetails(const absl::Status& status) {
  google::rpc::Status rich;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    google::protobuf::Any& detail = *rich.add_details();
    detail.set_type_url(std::string(type));
    detail.set_value(std::string(payload));
  });
  if (rich.details().empty()) return {};
  rich.set_code(status.raw_code());
  return rich.SerializeAsString();
}

absl::Status WithSerializedDetails(absl::Status status, const std::string& details) {
  google::rpc::Status rich;
  if (details.empty() || !rich.ParseFromString(details)) return status;
  for (const google::protobuf::Any& detail : rich.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

namespace {

// gRPC limits the metadata of a response to 8 KiB; a client that receives more reports that instead of the error.
constexpr std::size_t kLongestMessage = 3000;
constexpr std::size_t kLongestDetails = 3000;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message = PrintableText({status.message().data(), status.message().size()});
  if (message.size() > kLongestMessage) message = message.substr(0, kLongestMessage) + "...";
  std::string details = SerializeDetails(status);
  if (details.size() > kLongestDetails) details.clear();
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), message, details);
}

namespace {

// gRPC and google.rpc number their codes as absl does.
absl::StatusCode CodeOf(int code) {
  return code >= 0 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

// Calls that are open when a server exits end with one of several codes. All mean the same to a caller that did not
// cancel: retry.
bool WasBrokenOff(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::CANCELLED ||
         absl::StrContains(status.error_message(), "Stream removed") ||
         absl::StrContains(status.error_message(), "RST_STREAM");
}

bool NeverArrived(const std::string& message) {
  return absl::StrContains(message, "connect") || absl::StrContains(message, "DNS") ||
         absl::StrContains(message, "resolution") || absl::StrContains(message, "handshake");
}

std::string Unavailable(const std::string& message, const std::string& server) {
  if (!NeverArrived(message)) return absl::StrCat("the server at ", server, " is not available now: ", message);
  return absl::StrCat("cannot reach a server at ", server, " (", message,
                      "); start one with 'fulcrum serve', or name another with --server or FULCRUM_SERVER; a server "
                      "that uses TLS needs --tls-ca, and --tls-cert if it requires client certificates");
}

absl::Status Translated(const grpc::Status& status, const std::string& server) {
  const std::string message = PrintableText(status.error_message());
  if (WasBrokenOff(status)) {
    return absl::UnavailableError(absl::StrCat("the server at ", server, " ended the call: ", message, "; retry"));
  }
  const absl::StatusCode code = CodeOf(status.error_code());
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return absl::Status(code, Unavailable(message, server));
    case absl::StatusCode::kDeadlineExceeded:
      return absl::Status(code, absl::StrCat("the server at ", server, " did not respond in time: ", message,
                                             "; check its log, or retry"));
    case absl::StatusCode::kUnauthenticated:
      return absl::Status(code, absl::StrCat("the server at ", server, " refused the caller: ", message,
                                             "; give a token with --token-file or FULCRUM_TOKEN"));
    case absl::StatusCode::kPermissionDenied:
      return absl::Status(code, absl::StrCat(message, "; use a token with the required role"));
    case absl::StatusCode::kUnimplemented:
      return absl::Status(code, absl::StrCat("the server at ", server, " does not know this call: ", message,
                                             "; compare its version with 'fulcrum --version'"));
    default:
      return absl::Status(code, message);
  }
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& server) {
  if (status.ok()) return absl::OkStatus();
  return WithSerializedDetails(Translated(status, server), status.error_details());
}

absl::Status FromItemCode(int code, const std::string& message) {
  return absl::Status(CodeOf(code), PrintableText(message));
}

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

absl::Status RunGuarded(const std::function<absl::Status()>& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server does not have enough memory for this call; retry later");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return absl::InternalError(absl::StrCat("the call failed: ", error.what()));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("the system starts no more threads (", error.what(),
                     "); raise the limit on tasks: TasksMax of systemd, pids_limit of a container, ulimit -u"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the call failed: ", error.what()));
  } catch (...) {
    return absl::InternalError("the call failed with an exception of an unknown type");
  }
}

}  // namespace fulcrum::pipeline
