#include "pipeline/server/transport/frame_guard.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pipeline/text/structured_log.h"

namespace fulcrum::pipeline {
namespace {

using Clock = FrameCounter::Clock;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// When all connections together send too many resets, one that has sent fewer than this of late is not a culprit.
constexpr double kFewResets = 20;
// The same of streams before an acknowledgement of SETTINGS.
constexpr int kFewHeaders = 10;
// Connections closed within this and the second before.
constexpr int kFloodOfConnections = 20;

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

constexpr std::uint8_t kAckOrEndStream = 0x1;

/// What all connections together may send.
class SharedBucket {
 public:
  explicit SharedBucket(double burst) : left_(burst) {}
  /// False if there were too many.
  bool Spend(const FrameRate& rate, Clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    const double seconds = std::max(0.0, std::chrono::duration<double>(now - at_).count());
    left_ = std::min(rate.burst, left_ + seconds * rate.per_second);
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  std::mutex mutex_;
  double left_;
  Clock::time_point at_ = {};
};

SharedBucket g_resets(FrameLimits().all_resets.burst);
SharedBucket g_headers(FrameLimits().all_unacknowledged_headers.burst);

}  // namespace

FrameCounter::FrameCounter(const FrameLimits& limits) : limits_(limits) {
  resets_.left = limits.resets.burst;
  control_.left = limits.control.burst;
}

bool FrameCounter::Bucket::Spend(const FrameRate& rate, Clock::time_point now) {
  const double seconds = at == Clock::time_point() ? 0 : std::chrono::duration<double>(now - at).count();
  left = std::min(rate.burst, left + seconds * rate.per_second);
  at = now;
  if (left < 1) return false;
  left -= 1;
  return true;
}

const char* FrameCounter::CountReset(Clock::time_point now) {
  if (!resets_.Spend(limits_.resets, now)) return "resets of streams";
  const bool few = resets_.left >= limits_.resets.burst - kFewResets;
  if (!g_resets.Spend(limits_.all_resets, now) && !few) return "resets of streams, with others";
  return nullptr;
}

const char* FrameCounter::CountUnacknowledged(Clock::time_point now) {
  if (++headers_ > limits_.unacknowledged_headers) return "streams before an acknowledgement of SETTINGS";
  if (!g_headers.Spend(limits_.all_unacknowledged_headers, now) && headers_ > kFewHeaders) {
    return "streams before an acknowledgement of SETTINGS, with others";
  }
  return nullptr;
}

const char* FrameCounter::Count(Clock::time_point now) {
  const std::uint8_t type = header_[3];
  const bool flag = (header_[4] & kAckOrEndStream) != 0;
  if (type == kContinuation) return ++continuations_ > limits_.continuations ? "continuations of headers" : nullptr;
  continuations_ = 0;
  if (type == kReset) return CountReset(now);
  if (type == kSettings && flag) acknowledged_ = true;
  if (type == kHeaders && !acknowledged_) return CountUnacknowledged(now);
  const bool useful = type == kHeaders || type == kWindowUpdate || type == kGoAway || (type == kData && skip_ > 0);
  // An acknowledgement, or the end of a stream: each answers something that was counted elsewhere.
  const bool answers = flag && (type == kData || type == kSettings || type == kPing);
  if (useful || answers || control_.Spend(limits_.control, now)) return nullptr;
  return "frames that carry nothing";
}

const char* FrameCounter::Take(std::span<const std::uint8_t> bytes, Clock::time_point now) {
  while (!bytes.empty() && !foreign_) {
    if (preface_ < kPreface.size()) {
      foreign_ = bytes[0] != static_cast<std::uint8_t>(kPreface[preface_++]);
      bytes = bytes.subspan(1);
      continue;
    }
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    const std::size_t missing = std::min(kHeaderBytes - header_size_, bytes.size());
    std::copy_n(bytes.begin(), missing, header_.begin() + static_cast<std::ptrdiff_t>(header_size_));
    header_size_ += missing;
    bytes = bytes.subspan(missing);
    if (header_size_ < kHeaderBytes) break;
    header_size_ = 0;
    skip_ = std::size_t{header_[0]} << 16 | std::size_t{header_[1]} << 8 | header_[2];
    if (const char* const flood = Count(now)) return flood;
  }
  return nullptr;
}

namespace {

std::atomic<std::int64_t> g_closed = 0;
std::atomic<std::int64_t> g_logged_second = 0;

/// Connections closed in a second and in the one before it.
struct ClosedOfLate {
  std::mutex mutex;
  std::int64_t second = 0;
  int now = 0, before = 0;

  void MoveTo(std::int64_t to) {
    if (to == second) return;
    before = to == second + 1 ? now : 0;
    now = 0;
    second = to;
  }
};
ClosedOfLate g_of_late;

std::int64_t ThisSecond() {
  return std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
}

/// At most one line per second: the log must not be flooded either.
void NoteFlood(const char* flood) {
  const std::int64_t closed = ++g_closed;
  const std::int64_t second = ThisSecond();
  {
    const std::scoped_lock lock(g_of_late.mutex);
    g_of_late.MoveTo(second);
    ++g_of_late.now;
  }
  if (g_logged_second.exchange(second) == second) return;
  Log(LogLevel::kWarning, "connection closed: it sends too many frames",
      {{"frames", flood}, {"closed_so_far", closed}});
}

std::uint64_t GuardedSocketNumber(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

struct GuardedConnection {
  std::uint64_t socket_number = 0;
  FrameCounter counter;
};

/// Connections without TLS, by descriptor. Sharded, so that threads that read do not wait for each other.
struct Shard {
  std::mutex mutex;
  std::unordered_map<int, GuardedConnection> connections;
};

Shard& ShardOf(int descriptor) {
  // Never destroyed: gRPC's threads read until the process ends.
  static auto* const shards = new std::array<Shard, 64>();
  return (*shards)[static_cast<std::size_t>(descriptor) % shards->size()];
}

const char* TakeMessage(int descriptor, const msghdr& message, std::size_t size) {
  Shard& shard = ShardOf(descriptor);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.connections.find(descriptor);
  if (found == shard.connections.end()) return nullptr;
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const std::size_t part = std::min(size, message.msg_iov[i].iov_len);
    const char* const flood =
        found->second.counter.Take({static_cast<const std::uint8_t*>(message.msg_iov[i].iov_base), part}, now);
    size -= part;
    if (flood == nullptr) continue;
    // The descriptor may have become another socket's since the connection was accepted.
    const bool same = GuardedSocketNumber(descriptor) == found->second.socket_number;
    shard.connections.erase(found);
    return same ? flood : nullptr;
  }
  return nullptr;
}

void Forget(int descriptor) {
  Shard& shard = ShardOf(descriptor);
  const std::scoped_lock lock(shard.mutex);
  shard.connections.erase(descriptor);
}

void FreeCounter(void* /*parent*/, void* counter, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*number*/,
                 void* /*argument*/) {
  delete static_cast<FrameCounter*>(counter);
}

/// The counter of a connection with TLS; null if there is no memory for one.
FrameCounter* CounterOf(SSL* ssl) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeCounter);
  if (auto* const counter = static_cast<FrameCounter*>(SSL_get_ex_data(ssl, index))) return counter;
  auto counter = std::make_unique<FrameCounter>();
  return SSL_set_ex_data(ssl, index, counter.get()) == 1 ? counter.release() : nullptr;
}

template <typename Function>
Function* Original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void GuardConnection(int descriptor) {
  Shard& shard = ShardOf(descriptor);
  const std::scoped_lock lock(shard.mutex);
  shard.connections.erase(descriptor);
  shard.connections.try_emplace(
      descriptor, GuardedConnection{.socket_number = GuardedSocketNumber(descriptor), .counter = FrameCounter()});
}

std::int64_t ConnectionsClosedForFloods() {
  return g_closed;
}

bool FloodIsOn() {
  const std::scoped_lock lock(g_of_late.mutex);
  g_of_late.MoveTo(ThisSecond());
  return g_of_late.now + g_of_late.before >= kFloodOfConnections;
}

}  // namespace fulcrum::pipeline

extern "C" {

__attribute__((visibility("default"))) ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  static const auto original = fulcrum::pipeline::Original<ssize_t(int, msghdr*, int)>("recvmsg");
  const ssize_t size = original(descriptor, message, flags);
  if (size < 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  if (size == 0) {
    fulcrum::pipeline::Forget(descriptor);
    return size;
  }
  const char* const flood = fulcrum::pipeline::TakeMessage(descriptor, *message, static_cast<std::size_t>(size));
  if (flood == nullptr) return size;
  fulcrum::pipeline::NoteFlood(flood);
  // Without waiting for the client's end: it may never come, and thousands of waiting connections are another flood.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  // To gRPC the client has closed the connection.
  shutdown(descriptor, SHUT_RDWR);
  return 0;
}

__attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int size) {
  static const auto original = fulcrum::pipeline::Original<int(SSL*, void*, int)>("SSL_read");
  const int count = original(ssl, buffer, size);
  if (count <= 0 || SSL_is_server(ssl) == 0) return count;
  fulcrum::pipeline::FrameCounter* const counter = fulcrum::pipeline::CounterOf(ssl);
  const char* const flood =
      counter == nullptr ? nullptr
                         : counter->Take({static_cast<const std::uint8_t*>(buffer), static_cast<std::size_t>(count)},
                                         fulcrum::pipeline::FrameCounter::Clock::now());
  if (flood == nullptr) return count;
  fulcrum::pipeline::NoteFlood(flood);
  // To gRPC the connection is damaged, and it closes it.
  ERR_raise(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT);
  return -1;
}

}  // extern "C"
