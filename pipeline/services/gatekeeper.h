// Who calls, and whether they may.
//
// With a token book every call must bring "authorization: Bearer TOKEN". Without one (a daemon on loopback that was
// told so) everybody may do everything and says themselves who they are. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/services/rate_limits.h"
#include "pipeline/services/token_book.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace fulcrum::pipeline {

struct Caller {
  std::string name = {};  ///< empty where nobody asked
  Role role = Role::kAdmin;
};

class Gatekeeper {
 public:
  /// `tokens` may be null, and must outlive it. The limit is on the calls of one token; without tokens there is none.
  explicit Gatekeeper(TokenBook* tokens, RateLimit limit = {}) : tokens_(tokens), rates_(limit) {}

  /// Unauthenticated without a token that is somebody's, ResourceExhausted for somebody who calls too often.
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& context) const;
  /// Counts a message of a stream that was admitted before, as a call of its own.
  absl::Status CountMessage(const std::string& caller) const;
  /// PermissionDenied for a caller who may not read, label or administer.
  static absl::Status RequireReading(const Caller& caller);
  static absl::Status RequireLabeling(const Caller& caller);
  static absl::Status RequireAdmin(const Caller& caller);
  /// The annotator that a call is for: the one it names, where that is the caller or nobody asked for tokens.
  static absl::StatusOr<std::string> AnnotatorOf(const Caller& caller, const std::string& named);

 private:
  TokenBook* const tokens_;
  mutable RateLimits rates_;
};

}  // namespace fulcrum::pipeline
