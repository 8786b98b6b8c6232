#include "pipeline/client/call_status.h"

#include <grpcpp/support/status.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/client/printable_text.h"
#include "pipeline/error_details.h"

namespace fulcrum::pipeline {
namespace {

// gRPC and google.rpc number their codes as absl does.
absl::StatusCode CodeOf(int code) {
  return code >= 0 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

// A server that ends, in order or not, leaves its calls with several codes. All mean the same to a caller who did not
// cancel: ask again.
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
                      "that uses TLS needs --tls-ca, one that asks for certificates --tls-cert too");
}

absl::Status Translated(const grpc::Status& status, const std::string& server) {
  const std::string message = PrintableText(status.error_message());
  if (WasBrokenOff(status)) {
    return absl::UnavailableError(
        absl::StrCat("the server at ", server, " broke off the call: ", message, "; try again"));
  }
  const absl::StatusCode code = CodeOf(status.error_code());
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return absl::Status(code, Unavailable(message, server));
    case absl::StatusCode::kDeadlineExceeded:
      return absl::Status(code, absl::StrCat("the server at ", server, " did not answer in time: ", message,
                                             "; look at its log, or try again"));
    case absl::StatusCode::kUnauthenticated:
      return absl::Status(code, absl::StrCat("the server at ", server, " does not know who asks: ", message,
                                             "; give a token with --token-file or FULCRUM_TOKEN"));
    case absl::StatusCode::kPermissionDenied:
      return absl::Status(code, absl::StrCat(message, "; use a token that may do this"));
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

}  // namespace fulcrum::pipeline
