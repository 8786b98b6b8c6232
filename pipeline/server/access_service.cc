#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_service.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kLongestOwner = 64;
// Repeats come within seconds.
constexpr std::size_t kMostRemembered = 100;

v1::Role MessageOf(Role role) {
  switch (role) {
    case Role::kReader:
      return v1::ROLE_READER;
    case Role::kAnnotator:
      return v1::ROLE_ANNOTATOR;
    case Role::kAdmin:
      return v1::ROLE_ADMIN;
  }
  return v1::ROLE_UNSPECIFIED;
}

absl::StatusOr<Role> RoleOf(v1::Role role) {
  for (const Role known : {Role::kReader, Role::kAnnotator, Role::kAdmin}) {
    if (MessageOf(known) == role) return known;
  }
  return WithFieldProblems(absl::InvalidArgumentError("a token needs a role: reader, annotator or admin"),
                           {{"role", "is missing"}});
}

absl::Status CheckOwner(const std::string& owner) {
  const bool printable =
      std::none_of(owner.begin(), owner.end(), [](unsigned char letter) { return absl::ascii_iscntrl(letter); });
  if (!owner.empty() && owner.size() <= kLongestOwner && printable) return absl::OkStatus();
  return WithFieldProblems(
      absl::InvalidArgumentError(absl::StrCat("the owner of a token is a name of 1 to ", kLongestOwner,
                                              " characters without control characters")),
      {{"owner", "is empty, too long or has control characters"}});
}

absl::StatusOr<TokenStore*> Used(TokenStore* tokens) {
  if (tokens != nullptr) return tokens;
  return absl::FailedPreconditionError("this server uses no tokens: it was started with --no-tokens");
}

void Describe(const TokenEntry& entry, v1::Token& token) {
  token.set_owner(entry.name);
  token.set_role(MessageOf(entry.role));
  google::protobuf::Timestamp time;
  if (google::protobuf::util::TimeUtil::FromString(entry.made_at, &time)) *token.mutable_created_at() = time;
}

}  // namespace

grpc::ServerUnaryReactor* AccessService::GetCaller(grpc::CallbackServerContext* context,
                                                   const v1::GetCallerRequest* /*request*/,
                                                   v1::GetCallerResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Caller> caller = calls_.access().Admit(*context);
  if (caller.ok()) {
    response->set_caller(caller->name);
    response->set_role(MessageOf(caller->role));
    response->set_tokens(tokens_ != nullptr);
  }
  reactor->Finish(ToGrpcStatus(caller.status()));
  return reactor;
}

grpc::ServerUnaryReactor* AccessService::ListTokens(grpc::CallbackServerContext* context,
                                                    const v1::ListTokensRequest* request,
                                                    v1::ListTokensResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(TokenStore* const tokens, Used(tokens_));
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<TokenEntry> entries, tokens->List());
    for (const TokenEntry& entry : entries) Describe(entry, *response->add_tokens());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AccessService::CreateToken(grpc::CallbackServerContext* context,
                                                     const v1::CreateTokenRequest* request,
                                                     v1::CreateTokenResponse* response) {
  return calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(OrderOf(caller, request->request_id()).status());
        FULCRUM_ASSIGN_OR_RETURN(TokenStore* const tokens, Used(tokens_));
        FULCRUM_RETURN_IF_ERROR(CheckOwner(request->owner()));
        FULCRUM_ASSIGN_OR_RETURN(const Role role, RoleOf(request->role()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_secret(), CreateOnce(*tokens, {.by = caller.name,
                                                                                   .request_id = request->request_id(),
                                                                                   .owner = request->owner(),
                                                                                   .role = role}));
        FULCRUM_ASSIGN_OR_RETURN(const TokenEntry entry, tokens->Find(response->secret()));
        Describe(entry, *response->mutable_token());
        return absl::OkStatus();
      });
}

absl::StatusOr<std::string> AccessService::CreateOnce(TokenStore& tokens, const CreatedToken& wanted) {
  const std::scoped_lock lock(mutex_);
  for (const CreatedToken& created : created_) {
    if (wanted.request_id.empty() || created.request_id != wanted.request_id || created.by != wanted.by) continue;
    if (created.owner != wanted.owner || created.role != wanted.role) {
      return absl::AlreadyExistsError(absl::StrCat("request id '", wanted.request_id,
                                                   "' was used for another token; make a new id for every new "
                                                   "request"));
    }
    if (tokens.Find(created.secret).ok()) return created.secret;
    return absl::AlreadyExistsError(
        absl::StrCat("the token that request '", wanted.request_id, "' created has been revoked since"));
  }
  FULCRUM_ASSIGN_OR_RETURN(std::string secret, tokens.Create(wanted.owner, wanted.role));
  Log(LogLevel::kInfo, "token created", {{"name", wanted.owner}, {"role", RoleName(wanted.role)}, {"by", wanted.by}});
  if (wanted.request_id.empty()) return secret;
  created_.push_back(wanted);
  created_.back().secret = secret;
  if (created_.size() > kMostRemembered) created_.pop_front();
  return secret;
}

grpc::ServerUnaryReactor* AccessService::RevokeToken(grpc::CallbackServerContext* context,
                                                     const v1::RevokeTokenRequest* request,
                                                     v1::RevokeTokenResponse* /*response*/) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request](const Caller& caller) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(OrderOf(caller, request->request_id()).status());
    FULCRUM_ASSIGN_OR_RETURN(TokenStore* const tokens, Used(tokens_));
    FULCRUM_RETURN_IF_ERROR(tokens->Revoke(request->owner()));
    Log(LogLevel::kInfo, "token revoked by an administrator", {{"name", request->owner()}, {"by", caller.name}});
    return absl::OkStatus();
  });
}

}  // namespace fulcrum::pipeline
