#include "tests/benchmarks/crowd/lean_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"

namespace fulcrum::benchmarks {
namespace {

// Prefix of a message: compression flag and length.
constexpr std::size_t kPrefix = 5;
// Large enough that no call of a benchmark waits for flow control.
constexpr std::int32_t kWindow = 1 << 24;
constexpr int kCancelled = 1;

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

int Connect(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "connecting");
  const int on = 1;
  Require(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "sending without delay");
  return descriptor;
}

nghttp2_nv Header(absl::string_view name, absl::string_view value) {
  const auto bytes = [](absl::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::uint32_t LengthOf(const std::string& framed) {
  std::uint32_t length = 0;
  std::memcpy(&length, framed.data() + 1, sizeof(length));
  return ntohl(length);
}

}  // namespace

/// Callbacks of nghttp2.
struct LeanConnection::Callbacks {
  static LeanCall* CallOf(nghttp2_session* session, std::int32_t stream) {
    return static_cast<LeanCall*>(nghttp2_session_get_stream_user_data(session, stream));
  }

  static ssize_t Read(nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t size, std::uint32_t* flags,
                      nghttp2_data_source* source, void*) {
    LeanCall& call = *static_cast<LeanCall*>(source->ptr);
    const std::size_t count = std::min(size, call.outgoing_.size() - call.sent_);
    std::memcpy(buffer, call.outgoing_.data() + call.sent_, count);
    call.sent_ += count;
    const bool all = call.sent_ == call.outgoing_.size();
    if (all && call.last_) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == 0 && !call.last_) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t length, const std::uint8_t* value, std::size_t value_length, std::uint8_t, void*) {
    const absl::string_view header(reinterpret_cast<const char*>(name), length);
    LeanCall* const call = CallOf(session, frame->hd.stream_id);
    if (call == nullptr || header != "grpc-status") return 0;
    const absl::string_view text(reinterpret_cast<const char*>(value), value_length);
    return absl::SimpleAtoi(text, &call->status_) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t stream, const std::uint8_t* data,
                    std::size_t size, void*) {
    LeanCall* const call = CallOf(session, stream);
    if (call == nullptr) return 0;
    std::string& incoming = call->incoming_;
    incoming.append(reinterpret_cast<const char*>(data), size);
    while (incoming.size() >= kPrefix && incoming.size() >= kPrefix + LengthOf(incoming)) {
      const std::size_t end = kPrefix + LengthOf(incoming);
      call->OnMessage(absl::string_view(incoming).substr(kPrefix, end - kPrefix));
      incoming.erase(0, end);
    }
    return 0;
  }

  static int OnClose(nghttp2_session* session, std::int32_t stream, std::uint32_t error, void*) {
    LeanCall* const call = CallOf(session, stream);
    if (call == nullptr) return 0;
    if (error != NGHTTP2_NO_ERROR) call->status_ = kCancelled;
    call->stream_ = 0;
    call->OnEnd(call->status_);
    return 0;
  }
};

LeanConnection::LeanConnection(int port) : socket_(Connect(port)) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnClose);
  nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry window{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &window, 1);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
}

LeanConnection::~LeanConnection() {
  nghttp2_session_del(session_);
  close(socket_);
}

void LeanConnection::Begin(const char* method, LeanCall& call) {
  const std::array headers{Header(":method", "POST"), Header(":scheme", "http"),
                           Header(":path", method),   Header(":authority", "localhost"),
                           Header("te", "trailers"),  Header("content-type", "application/grpc")};
  call.status_ = 0;
  nghttp2_data_provider body{};
  body.source.ptr = &call;
  body.read_callback = Callbacks::Read;
  call.stream_ = nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &body, &call);
  Require(call.stream_ > 0, "beginning a call");
}

void LeanConnection::Call(const char* method, const google::protobuf::MessageLite& request, LeanCall& call) {
  call.outgoing_.clear();
  Send(request, call);
  call.last_ = true;
  Begin(method, call);
}

void LeanConnection::Open(const char* method, LeanCall& call) {
  call.outgoing_.clear();
  call.sent_ = 0;
  call.last_ = false;
  Begin(method, call);
}

void LeanConnection::Send(const google::protobuf::MessageLite& message, LeanCall& call) {
  if (call.sent_ == call.outgoing_.size()) call.outgoing_.clear();
  if (call.outgoing_.empty()) call.sent_ = 0;
  const std::size_t start = call.outgoing_.size();
  call.outgoing_.resize(start + kPrefix);
  message.AppendToString(&call.outgoing_);
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(call.outgoing_.size() - start - kPrefix));
  std::memcpy(call.outgoing_.data() + start + 1, &length, sizeof(length));
  // Fails if the stream is not deferred, which is not an error.
  if (call.stream_ > 0) nghttp2_session_resume_data(session_, call.stream_);
}

void LeanConnection::Cancel(LeanCall& call) {
  if (call.stream_ > 0) nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_, NGHTTP2_CANCEL);
}

void LeanConnection::Receive() {
  std::array<std::uint8_t, 65536> buffer;
  const ssize_t count = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Require(count > 0, "the server closed a connection");
  Require(nghttp2_session_mem_recv(session_, buffer.data(), static_cast<std::size_t>(count)) == count,
          "what the server sent is no HTTP/2");
}

void LeanConnection::Flush() {
  const std::uint8_t* data = nullptr;
  for (ssize_t count = 0; (count = nghttp2_session_mem_send(session_, &data)) > 0;) {
    unsent_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(count));
  }
  if (unsent_.empty()) return;
  const ssize_t sent = send(socket_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  Require(sent >= 0 || errno == EAGAIN || errno == EINTR, "sending");
  unsent_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
}

void LeanConnection::Run(const std::vector<std::unique_ptr<LeanConnection>>& connections,
                         const std::function<bool()>& done) {
  std::vector<pollfd> polled(connections.size());
  for (;;) {
    for (std::size_t i = 0; i < connections.size(); ++i) {
      connections[i]->Flush();
      const bool full = !connections[i]->unsent_.empty();
      polled[i] = {connections[i]->socket_, static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0};
    }
    if (done()) return;
    Require(poll(polled.data(), polled.size(), -1) > 0 || errno == EINTR, "waiting for the server");
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) connections[i]->Receive();
    }
  }
}

}  // namespace fulcrum::benchmarks
