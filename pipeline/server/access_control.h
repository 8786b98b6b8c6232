// Who calls, and whether they may.
//
// With a token store every call must have the metadata "authorization: Bearer TOKEN". Without one (on loopback, if
// asked for) every caller may do everything and gives its own name. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/sqlite.h"

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

  /// Counts a call. ResourceExhausted, with the time to wait in its details, if there were too many.
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
class ClientContext;
class ServerContextBase;
}  // namespace grpc

namespace fulcrum::pipeline {

// Who may call the daemon: bearer tokens with a name and a role, kept hashed.
//
// A token is 32 random bytes as text, shown once when it is made; only its SHA-256 is stored, so that the file gives
// no access. Several processes may use one store (the daemon reads while `fulcrum token` writes): a change is seen
// by the next call. Thread-safe.

enum class Role { kReader, kAnnotator, kAdmin };
/// "reader", "annotator", "admin"
std::string RoleName(Role role);
absl::StatusOr<Role> ParseRole(const std::string& name);

struct TokenEntry {
  std::string name = {};
  Role role = Role::kReader;
  std::string made_at = {};
  std::string hash = {};  ///< of the token; names the token without giving access
};

class TokenStore {
 public:
  /// Opens or makes DATA/tokens.db, which only its owner may read.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& data_folder);

  /// The new token. AlreadyExists for a name that has one, Unavailable if tokens cannot be changed now.
  absl::StatusOr<std::string> Create(const std::string& name, Role role);
  /// By name. Unavailable if they cannot be read now.
  absl::StatusOr<std::vector<TokenEntry>> List();
  /// NotFound for a name that has none, Unavailable if tokens cannot be changed now.
  absl::Status Revoke(const std::string& name);
  /// The owner of a token; NotFound if it is unknown or revoked, Unavailable if the tokens cannot be read now.
  absl::StatusOr<TokenEntry> Find(const std::string& token);
  /// The same for a token's hash.
  absl::StatusOr<TokenEntry> FindByHash(const std::string& hash);

 private:
  TokenStore(storage::SqliteDatabase database, storage::SqliteStatement version)
      : database_(std::move(database)), version_(std::move(version)) {}
  absl::StatusOr<std::vector<TokenEntry>> ReadAll();
  /// Executes a statement with these parameters.
  absl::Status Change(const char* sql, const std::vector<std::string>& values);
  /// Reads the tokens again if another process has changed them. Unavailable if they cannot be read now.
  absl::Status Refresh();

  std::mutex mutex_;
  storage::SqliteDatabase database_;
  storage::SqliteStatement version_;  // changes with every change by another connection
  std::optional<std::int64_t> known_version_;
  std::unordered_map<std::string, TokenEntry> known_;  // by hash, as of that version
};

struct Caller {
  std::string name = {};  ///< empty if the server asks for no tokens
  Role role = Role::kAdmin;
  std::string token_hash = {};
};

/// Where a call comes from, for the log: the address of the peer. A call over HTTP reaches the services through a
/// channel inside the process, whose end names the client by NameOrigin; metadata that others send under that name is
/// ignored.
std::string OriginOf(const grpc::ServerContextBase& context);
void NameOrigin(grpc::ClientContext& context, const std::string& address);

class AccessControl {
 public:
  /// `tokens` may be null, and must outlive it. The limit is on the calls of one token; without tokens there is none.
  /// `on_revoked` is called with the name of every token that is revoked, on a thread of its own.
  explicit AccessControl(TokenStore* tokens, RateLimit limit = {},
                         std::function<void(const std::string& name)> on_revoked = {});
  ~AccessControl();

  /// Unauthenticated for an unknown or revoked token, ResourceExhausted for a caller that calls too often, Unavailable
  /// if the tokens cannot be read. Refusals are logged.
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& context) const;
  /// Logs that a call was refused, with its origin; at most one line per second, because any client can cause it.
  void LogRefusal(const grpc::ServerContextBase& context, const std::string& caller, const absl::Status& why) const;
  /// The same for a message of a stream that was admitted before.
  absl::Status AdmitMessage(const Caller& caller) const;
  /// Unauthenticated if the token was revoked since the caller was admitted; does not count as a call.
  absl::Status CheckToken(const Caller& caller) const;
  /// PermissionDenied for a caller who may not read, label or administer.
  static absl::Status RequireReading(const Caller& caller);
  static absl::Status RequireLabeling(const Caller& caller);
  static absl::Status RequireAdmin(const Caller& caller);
  /// The annotator that a call is for: the one it names, if that is the caller or the server asks for no tokens.
  static absl::StatusOr<std::string> AnnotatorOf(const Caller& caller, const std::string& named);

  /// As long as it lives, `end` is called if the token is revoked, or was before this call. `end` must be safe to call
  /// at any time.
  class OpenStream {
   public:
    OpenStream() = default;
    OpenStream(OpenStream&& other) noexcept { *this = std::move(other); }
    OpenStream& operator=(OpenStream&& other) noexcept;
    ~OpenStream();

   private:
    friend class AccessControl;
    const AccessControl* access_ = nullptr;
    std::int64_t id_ = 0;
  };
  OpenStream NoteStream(const Caller& caller, std::function<void(const absl::Status&)> end) const;

  /// Streams of a caller that may hold a lot of memory while nobody reads them.
  static constexpr int kMostHeldStreams = 8;
  /// Counts one of them as long as the result is held. ResourceExhausted if the caller has so many already.
  absl::StatusOr<std::shared_ptr<const void>> HoldStream(const Caller& caller) const;

 private:
  struct Stream {
    std::string token_hash = {};
    std::function<void(const absl::Status&)> end = {};
  };
  absl::StatusOr<Caller> Authenticate(const grpc::ServerContextBase& context) const;
  /// Checks for revoked tokens periodically.
  void WatchTokens(const std::stop_token& stop);
  /// Ends the streams of tokens that have been revoked since the last time.
  void NoteRevoked();
  void EndStreamsOf(const std::string& token_hash);

  TokenStore* const tokens_;
  const std::function<void(const std::string& name)> on_revoked_;
  mutable RateLimits rates_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopping_;
  mutable std::map<std::int64_t, Stream> streams_;
  mutable std::int64_t last_stream_ = 0;
  mutable std::map<std::string, std::shared_ptr<const void>> held_;  // by token; each held stream has a copy
  mutable std::chrono::steady_clock::time_point next_refusal_line_ = {};
  mutable std::int64_t refusals_not_logged_ = 0;
  std::map<std::string, std::string> known_tokens_;  // names by hash, at the last check; of the watcher
  std::jthread watcher_;                             // last: it uses all of the above
};

}  // namespace fulcrum::pipeline
