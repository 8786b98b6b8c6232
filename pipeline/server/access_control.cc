#include "pipeline/server/access_control.h"

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

double RateLimits::CallsAt(const Bucket& bucket, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(limit_.burst, bucket.calls + seconds * limit_.calls_a_second);
}

void RateLimits::ForgetFull(Clock::time_point now) {
  if (buckets_.size() < look_again_at_) return;
  std::erase_if(buckets_, [&](const auto& entry) { return CallsAt(entry.second, now) >= limit_.burst; });
  look_again_at_ = std::max<std::size_t>(1024, 2 * buckets_.size());
}

absl::Status RateLimits::Count(const std::string& caller) {
  if (limit_.calls_a_second <= 0) return absl::OkStatus();
  const Clock::time_point now = now_();
  const std::scoped_lock lock(mutex_);
  ForgetFull(now);
  Bucket& bucket = buckets_.try_emplace(caller, Bucket{limit_.burst, now}).first->second;
  bucket.calls = CallsAt(bucket, now);
  bucket.at = now;
  if (bucket.calls >= 1) {
    bucket.calls -= 1;
    return absl::OkStatus();
  }
  const auto wait = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(1000 * (1 - bucket.calls) / limit_.calls_a_second)));
  return WithRetryDelay(absl::ResourceExhaustedError(absl::StrFormat(
                            "'%s' calls more than %g times a second; try again in %d ms, or take more tasks at a time",
                            caller, limit_.calls_a_second, wait.count())),
                        wait);
}

std::size_t RateLimits::remembered() const {
  const std::scoped_lock lock(mutex_);
  return buckets_.size();
}

namespace {

constexpr char kPrefix[] = "Bearer ";
constexpr std::size_t kLongestToken = 256;
constexpr std::chrono::milliseconds kTokenCheckTime{250};
constexpr std::chrono::seconds kRefusalLineTime{1};
constexpr char kOriginKey[] = "fulcrum-origin";

/// Shows that metadata comes from this process; empty if there is no randomness for it.
const std::string& OriginSecret() {
  static const auto* const secret = [] {
    std::array<unsigned char, 16> bytes{};
    const bool sound = RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1;
    return new std::string(
        sound ? absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) + "/" : "");
  }();
  return *secret;
}

absl::Status UnknownToken() {
  return WithReason(absl::UnauthenticatedError("unknown or revoked token"), "TOKEN_UNKNOWN");
}

absl::Status RoleTooLow(const std::string& message) {
  return WithReason(absl::PermissionDeniedError(message), "ROLE_TOO_LOW");
}

}  // namespace

std::string OriginOf(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(kOriginKey);
  if (found != context.client_metadata().end() && !OriginSecret().empty()) {
    const std::string value(found->second.data(), found->second.length());
    if (value.rfind(OriginSecret(), 0) == 0) return value.substr(OriginSecret().size());
  }
  return context.peer();
}

void NameOrigin(grpc::ClientContext& context, const std::string& address) {
  if (!OriginSecret().empty()) context.AddMetadata(kOriginKey, OriginSecret() + address);
}

AccessControl::AccessControl(TokenStore* tokens, RateLimit limit,
                             std::function<void(const std::string& name)> on_revoked)
    : tokens_(tokens), on_revoked_(std::move(on_revoked)), rates_(limit) {
  if (tokens_ == nullptr) return;
  // Before the first call: a token that is revoked right after it was used is known.
  NoteRevoked();
  watcher_ = std::jthread([this](const std::stop_token& stop) { WatchTokens(stop); });
}

AccessControl::~AccessControl() = default;

void AccessControl::WatchTokens(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_for(lock, stop, kTokenCheckTime, [] { return false; });
    }
    NoteRevoked();
  }
}

void AccessControl::NoteRevoked() {
  const auto entries = tokens_->List();
  // Tokens that cannot be read now are not revoked ones.
  if (!entries.ok()) return;
  std::map<std::string, std::string> now;
  for (const TokenEntry& entry : *entries) now.emplace(entry.hash, entry.name);
  for (const auto& [hash, name] : std::exchange(known_tokens_, now)) {
    if (now.contains(hash)) continue;
    Log(LogLevel::kInfo, "token revoked", {{"name", name}});
    EndStreamsOf(hash);
    if (on_revoked_) on_revoked_(name);
  }
}

void AccessControl::EndStreamsOf(const std::string& token_hash) {
  std::vector<std::function<void(const absl::Status&)>> ends;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, stream] : streams_) {
      if (stream.token_hash == token_hash) ends.push_back(stream.end);
    }
  }
  for (const auto& end : ends) end(UnknownToken());
}

AccessControl::OpenStream AccessControl::NoteStream(const Caller& caller,
                                                    std::function<void(const absl::Status&)> end) const {
  OpenStream stream;
  if (tokens_ == nullptr) return stream;
  {
    const std::scoped_lock lock(mutex_);
    stream.access_ = this;
    stream.id_ = ++last_stream_;
    streams_.emplace(stream.id_, Stream{caller.token_hash, end});
  }
  // A token that was revoked just before this has been looked for among the streams already.
  if (const absl::Status status = CheckToken(caller); absl::IsUnauthenticated(status)) end(status);
  return stream;
}

absl::StatusOr<std::shared_ptr<const void>> AccessControl::HoldStream(const Caller& caller) const {
  const std::scoped_lock lock(mutex_);
  // Only under the mutex are copies made, so that the numbers can only fall meanwhile.
  std::erase_if(held_, [](const auto& entry) { return entry.second.use_count() == 1; });
  std::shared_ptr<const void>& held = held_[caller.token_hash];
  if (held == nullptr) held = std::make_shared<const int>();
  if (held.use_count() <= kMostHeldStreams) return held;
  return absl::ResourceExhaustedError(
      absl::StrCat(kMostHeldStreams, " exports of this caller are open; read them to their end or cancel them first"));
}

AccessControl::OpenStream& AccessControl::OpenStream::operator=(OpenStream&& other) noexcept {
  std::swap(access_, other.access_);
  std::swap(id_, other.id_);
  return *this;
}

AccessControl::OpenStream::~OpenStream() {
  if (access_ == nullptr) return;
  const std::scoped_lock lock(access_->mutex_);
  access_->streams_.erase(id_);
}

absl::StatusOr<Caller> AccessControl::Admit(const grpc::ServerContextBase& context) const {
  if (tokens_ == nullptr) return Caller{};
  absl::StatusOr<Caller> caller = Authenticate(context);
  if (absl::IsUnauthenticated(caller.status())) LogRefusal(context, "", caller.status());
  return caller;
}

void AccessControl::LogRefusal(const grpc::ServerContextBase& context, const std::string& caller,
                               const absl::Status& why) const {
  std::int64_t not_logged = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_refusal_line_) {
      ++refusals_not_logged_;
      return;
    }
    next_refusal_line_ = now + kRefusalLineTime;
    not_logged = std::exchange(refusals_not_logged_, 0);
  }
  Log(LogLevel::kWarning, "call refused",
      {{"by", caller},
       {"from", OriginOf(context)},
       {"reason", std::string(why.message())},
       {"refusals_not_logged", not_logged}});
}

absl::StatusOr<Caller> AccessControl::Authenticate(const grpc::ServerContextBase& context) const {
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
  const absl::StatusOr<TokenEntry> entry = tokens_->Find(value.substr(sizeof(kPrefix) - 1));
  if (absl::IsNotFound(entry.status())) return UnknownToken();
  FULCRUM_RETURN_IF_ERROR(entry.status());
  FULCRUM_RETURN_IF_ERROR(rates_.Count(entry->name));
  return Caller{.name = entry->name, .role = entry->role, .token_hash = entry->hash};
}

absl::Status AccessControl::AdmitMessage(const Caller& caller) const {
  FULCRUM_RETURN_IF_ERROR(CheckToken(caller));
  return tokens_ == nullptr ? absl::OkStatus() : rates_.Count(caller.name);
}

absl::Status AccessControl::CheckToken(const Caller& caller) const {
  if (tokens_ == nullptr) return absl::OkStatus();
  const absl::Status found = tokens_->FindByHash(caller.token_hash).status();
  return absl::IsNotFound(found) ? UnknownToken() : found;
}

absl::Status AccessControl::RequireReading(const Caller& caller) {
  if (caller.role == Role::kAdmin || caller.role == Role::kReader) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' is an ", RoleName(caller.role), ", who may only label"));
}

absl::Status AccessControl::RequireAdmin(const Caller& caller) {
  if (caller.role == Role::kAdmin) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' has the role ", RoleName(caller.role), "; this takes an admin"));
}

absl::Status AccessControl::RequireLabeling(const Caller& caller) {
  if (caller.role != Role::kReader) return absl::OkStatus();
  return RoleTooLow(absl::StrCat("'", caller.name, "' may only read; labeling takes an annotator"));
}

absl::StatusOr<std::string> AccessControl::AnnotatorOf(const Caller& caller, const std::string& named) {
  FULCRUM_RETURN_IF_ERROR(RequireLabeling(caller));
  if (caller.name.empty()) {
    if (!named.empty()) return named;
    return absl::InvalidArgumentError("'annotator' is empty; name the annotator");
  }
  if (named.empty() || named == caller.name) return caller.name;
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat("the token belongs to '", caller.name, "', but 'annotator' is '",
                                               named.substr(0, 100), "'; an annotator can act only for itself")),
      "NOT_THE_ANNOTATOR");
}

}  // namespace fulcrum::pipeline
