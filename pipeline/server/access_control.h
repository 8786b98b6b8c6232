// Who calls, and whether they may.
//
// With a token book every call must bring "authorization: Bearer TOKEN". Without one (a daemon on loopback that was
// told so) everybody may do everything and says themselves who they are. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/server/token_store.h"

namespace fulcrum::pipeline {

// How often one caller may call: a bucket of calls that fills steadily, for each by name.
//
// Buckets that are full again are forgotten, so that memory follows those who call now. Thread-safe.

struct RateLimit {
  double calls_a_second = 0;  ///< 0: no limit
  double burst = 0;           ///< calls at once, after a pause
};

class RateLimits {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimits(RateLimit limit, std::function<Clock::time_point()> now = Clock::now)
      : limit_(limit), now_(std::move(now)) {}

  /// Counts a call. ResourceExhausted, with the time to wait in its details, where there were too many.
  absl::Status Count(const std::string& caller);
  /// Callers that are remembered.
  std::size_t remembered() const;

 private:
  struct Bucket {
    double calls = 0;  ///< left, as of `at`
    Clock::time_point at = {};
  };

  double CallsAt(const Bucket& bucket, Clock::time_point now) const;
  void ForgetFull(Clock::time_point now);

  const RateLimit limit_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t look_again_at_ = 1024;
};

}  // namespace fulcrum::pipeline

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace fulcrum::pipeline {

struct Caller {
  std::string name = {};  ///< empty where nobody asked
  Role role = Role::kAdmin;
};

class AccessControl {
 public:
  /// `tokens` may be null, and must outlive it. The limit is on the calls of one token; without tokens there is none.
  explicit AccessControl(TokenStore* tokens, RateLimit limit = {}) : tokens_(tokens), rates_(limit) {}

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
  TokenStore* const tokens_;
  mutable RateLimits rates_;
};

}  // namespace fulcrum::pipeline
