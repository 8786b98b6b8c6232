#include "pipeline/services/gatekeeper.h"

#include <grpcpp/server_context.h>

#include "absl/strings/str_cat.h"
#include "pipeline/error_details.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kPrefix[] = "Bearer ";
constexpr std::size_t kLongestToken = 256;

absl::Status RoleTooLow(const std::string& message) {
  return WithReason(absl::PermissionDeniedError(message), "ROLE_TOO_LOW");
}

}  // namespace

absl::StatusOr<Caller> Gatekeeper::Admit(const grpc::ServerContextBase& context) const {
  if (tokens_ == nullptr) return Caller{};
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) {
    return WithReason(
        absl::UnauthenticatedError("this server asks for a token: send the metadata 'authorization: Bearer TOKEN' "
                                   "(`fulcrum token create` makes one)"),
        "TOKEN_MISSING");
  }
  const std::string value(found->second.data(), found->second.length());
  if (value.size() > kLongestToken || value.rfind(kPrefix, 0) != 0) {
    return WithReason(absl::UnauthenticatedError("the metadata 'authorization' must be 'Bearer TOKEN'"),
                      "TOKEN_MALFORMED");
  }
  const auto entry = tokens_->Find(value.substr(sizeof(kPrefix) - 1));
  if (!entry) {
    return WithReason(absl::UnauthenticatedError("the token is nobody's; it may have been revoked"), "TOKEN_UNKNOWN");
  }
  FULCRUM_RETURN_IF_ERROR(rates_.Count(entry->name));
  return Caller{.name = entry->name, .role = entry->role};
}

absl::Status Gatekeeper::CountMessage(const std::string& caller) const {
  return tokens_ == nullptr ? absl::OkStatus() : rates_.Count(caller);
}

absl::Status Gatekeeper::RequireReading(const Caller& caller) {
  if (caller.role == Role::kAdmin || caller.role == Role::kReader) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' is an ", RoleName(caller.role), ", who may only label"));
}

absl::Status Gatekeeper::RequireAdmin(const Caller& caller) {
  if (caller.role == Role::kAdmin) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' has the role ", RoleName(caller.role), "; this takes an admin"));
}

absl::Status Gatekeeper::RequireLabeling(const Caller& caller) {
  if (caller.role != Role::kReader) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' may only read; labeling takes an annotator"));
}

absl::StatusOr<std::string> Gatekeeper::AnnotatorOf(const Caller& caller, const std::string& named) {
  FULCRUM_RETURN_IF_ERROR(RequireLabeling(caller));
  if (caller.name.empty()) {
    if (!named.empty()) return named;
    return absl::InvalidArgumentError("'annotator' is empty; say who works");
  }
  if (named.empty() || named == caller.name) return caller.name;
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat("the token is '", caller.name, "'s and the call says it is for '",
                                               named.substr(0, 100), "'; an annotator acts only as itself")),
      "NOT_THE_ANNOTATOR");
}

}  // namespace fulcrum::pipeline
