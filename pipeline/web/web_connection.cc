#include "pipeline/web/web_connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
namespace ssl = net::ssl;
using Error = boost::system::error_code;

constexpr std::uint32_t kMostHeaderBytes = 16 * 1024;
// Of requests and answers; smaller ones are not counted.
constexpr std::size_t kSmallBody = 64 * 1024;
constexpr std::chrono::milliseconds kGoneCheckTime{500};
constexpr std::chrono::seconds kDiscardTime{2};

/// All of it runs on a strand; the methods of WebExchange go there first.
template <typename Stream>
class Connection final : public WebExchange, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  template <typename... Arguments>
  Connection(std::shared_ptr<WebServerState> server, Arguments&&... arguments)
      : server_(std::move(server)),
        stream_(std::forward<Arguments>(arguments)...),
        gone_timer_(stream_.get_executor()) {
    Error error;
    const auto peer = lowest().socket().remote_endpoint(error);
    if (!error) peer_ = peer.address().to_string();
    lowest().socket().set_option(net::socket_base::keep_alive(true), error);
  }
  ~Connection() override {
    const std::scoped_lock lock(server_->mutex);
    server_->connections.erase(this);
  }

  void Begin() {
    {
      const std::scoped_lock lock(server_->mutex);
      server_->connections[this] = [weak = this->weak_from_this()](bool at_once) {
        if (const auto self = weak.lock()) {
          net::dispatch(self->stream_.get_executor(), [self, at_once] { self->CloseIfIdle(at_once); });
        }
      };
    }
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (kTls) {
        self->lowest().expires_after(self->limits().request_time);
        self->stream_.async_handshake(ssl::stream_base::server, [self](const Error& error) {
          if (!error) self->ReadHeader(self->limits().request_time);
        });
      } else {
        self->ReadHeader(self->limits().request_time);
      }
    });
  }

  void Reply(WebReply reply) override {
    Run([reply = std::move(reply)](Connection& it) mutable { it.SendReply(std::move(reply)); });
  }
  void BeginStream(WebReply head) override {
    Run([head = std::move(head)](Connection& it) { it.SendHead(head); });
  }
  void SendPart(std::string part) override {
    Run([part = std::move(part)](Connection& it) mutable { it.Queue(std::move(part)); });
  }
  void EndStream(std::string last) override {
    Run([last = std::move(last)](Connection& it) mutable {
      it.ending_ = true;
      it.Queue(std::move(last));
    });
  }
  void OnSent(std::function<void()> on_sent) override {
    Run([on_sent = std::move(on_sent)](Connection& it) mutable {
      if (!it.active_) return;
      it.on_sent_ = std::move(on_sent);
      if (!it.writing_ && it.parts_.empty()) it.on_sent_();
    });
  }
  void OnGone(std::function<void()> on_gone) override {
    Run([on_gone = std::move(on_gone)](Connection& it) mutable {
      if (!it.active_) return;
      it.on_gone_ = std::move(on_gone);
      it.WatchForClose();
    });
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }
  const WebServerOptions& limits() const { return server_->options; }

  template <typename Act>
  void Run(Act act) {
    net::post(stream_.get_executor(),
              [self = this->shared_from_this(), act = std::move(act)]() mutable { act(*self); });
  }

  void ReadHeader(std::chrono::seconds time) {
    if (server_->stopping.load()) return Close();
    idle_ = true;
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(limits().max_body_bytes);
    lowest().expires_after(time);
    http::async_read_header(stream_, buffer_, *parser_, [self = this->shared_from_this()](const Error& error, auto) {
      self->idle_ = false;
      if (error) return self->Refuse(error);
      self->OnHeader();
    });
  }

  void OnHeader() {
    if (parser_->content_length().value_or(0) > limits().max_body_bytes) return Refuse(http::error::body_limit);
    if (!absl::EqualsIgnoreCase(Text(parser_->get()[http::field::expect]), "100-continue")) return ReadBody();
    static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
    lowest().expires_after(limits().transfer_time);
    net::async_write(stream_, net::buffer(kContinue, sizeof(kContinue) - 1),
                     [self = this->shared_from_this()](const Error& error, auto) {
                       if (!error) self->ReadBody();
                     });
  }

  void ReadBody() {
    lowest().expires_after(limits().transfer_time);
    parser_->eager(true);
    ReadSome();
  }

  /// What counts against the memory for large requests is what has come of them: no client is kept out by others who
  /// only announce much.
  void ReadSome() {
    if (parser_->is_done()) return Dispatch();
    http::async_read_some(stream_, buffer_, *parser_, [self = this->shared_from_this()](const Error& error, auto) {
      if (error) return self->Refuse(error);
      const std::size_t size = self->parser_->get().body().size();
      if (size > kSmallBody && !self->Reserve(size)) {
        return self->RefuseWith(503, "unavailable", "too many large requests at once; try again");
      }
      self->ReadSome();
    });
  }

  static std::string Text(beast::string_view text) { return {text.data(), text.size()}; }

  void Dispatch() {
    lowest().expires_never();
    auto message = parser_->release();
    const std::string target = Text(message.target());
    WebRequest request{.method = Text(message.method_string()),
                       .path = target.substr(0, target.find('?')),
                       .body = std::move(message.body()),
                       .peer = peer_,
                       .tls = kTls};
    for (const auto& field : message) {
      request.headers.emplace(absl::AsciiStrToLower(Text(field.name_string())), Text(field.value()));
    }
    version_ = message.version();
    head_only_ = message.method() == http::verb::head;
    keep_alive_ = message.keep_alive();
    answered_ = false;
    active_ = true;
    server_->handler(std::move(request), this->shared_from_this());
  }

  void Refuse(const Error& error) {
    if (error == http::error::body_limit) {
      return RefuseWith(413, "resource_exhausted",
                        absl::StrCat("the body is larger than ", limits().max_body_bytes, " bytes"));
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return RefuseWith(431, "resource_exhausted", "the header of the request is too large");
    }
    const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                           error != http::error::end_of_stream && error != http::error::partial_message;
    if (malformed) return RefuseWith(400, "invalid_argument", "this is not an HTTP/1.1 request");
    Close();
  }

  /// Before a handler was asked. The rest of the request is not read, so that the connection ends.
  void RefuseWith(int status, const std::string& code, const std::string& message) {
    keep_alive_ = false;
    answered_ = false;
    refused_ = true;
    parser_.reset();  // with what has come of the body
    SendReply({.status = status, .body = ErrorText(code, message)});
  }

  static std::string ErrorText(const std::string& code, const std::string& message) {
    return absl::StrCat(R"({"code":")", code, R"(","message":")", message, R"("})");
  }

  template <typename Body>
  void Fill(http::response<Body>& response, const WebReply& reply) {
    response.result(static_cast<unsigned>(reply.status));
    response.version(version_);
    if (!reply.type.empty()) response.set(http::field::content_type, reply.type);
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    keep_alive_ = keep_alive_ && !server_->stopping.load();
    response.keep_alive(keep_alive_);
  }

  void SendReply(WebReply reply) {
    if (std::exchange(answered_, true)) return;
    Release();
    if (!ReserveAnswer(reply.body.size())) {
      reply = {.status = 503, .body = ErrorText("unavailable", "too many large answers at once; try again")};
    }
    lowest().expires_after(limits().transfer_time);
    const auto response = std::make_shared<http::response<http::string_body>>();
    Fill(*response, reply);
    const std::size_t length = reply.body.size();
    if (!head_only_) response->body() = std::move(reply.body);
    response->content_length(length);
    http::async_write(stream_, *response, [self = this->shared_from_this(), response](const Error& error, auto) {
      self->AnswerSent(error);
    });
  }

  void AnswerSent(const Error& error) {
    ReleaseAnswer(unsent_);
    active_ = false;
    on_gone_ = {};
    on_sent_ = {};
    if (!error && refused_) return DiscardRest();
    if (error || !keep_alive_) return Close();
    ReadHeader(limits().idle_time);
  }

  /// A connection that is closed while the client still sends is reset, and the client may not see the answer. So what
  /// it sends is thrown away for a moment.
  void DiscardRest() {
    Error ignored;
    lowest().socket().shutdown(net::socket_base::shutdown_send, ignored);
    lowest().expires_after(kDiscardTime);
    Discard(std::make_shared<std::array<char, 16 * 1024>>());
  }

  void Discard(std::shared_ptr<std::array<char, 16 * 1024>> waste) {
    auto& socket = lowest();
    socket.async_read_some(net::buffer(*waste), [self = this->shared_from_this(), waste](const Error& error, auto) {
      if (error) return self->Close();
      self->Discard(waste);
    });
  }

  void SendHead(const WebReply& head) {
    if (std::exchange(answered_, true)) return;
    Release();
    stream_head_.emplace();
    Fill(*stream_head_, head);
    stream_head_->chunked(true);
    stream_serializer_.emplace(*stream_head_);
    writing_ = true;
    ending_ = false;
    lowest().expires_after(limits().transfer_time);
    http::async_write_header(stream_, *stream_serializer_,
                             [self = this->shared_from_this()](const Error& error, auto) { self->PartSent(error); });
  }

  void Queue(std::string part) {
    if (!ReserveAnswer(part.size())) {
      NoteGone();
      return Close();
    }
    if (!part.empty()) parts_.push_back(std::move(part));  // an empty chunk would be the last one
    if (writing_) return;
    if (!parts_.empty()) return WriteNext();
    if (ending_) Finish();
  }

  void WriteNext() {
    writing_ = true;
    part_ = std::move(parts_.front());
    parts_.pop_front();
    lowest().expires_after(limits().transfer_time);
    net::async_write(stream_, http::make_chunk(net::buffer(part_)),
                     [self = this->shared_from_this()](const Error& error, auto) { self->PartSent(error); });
  }

  void PartSent(const Error& error) {
    writing_ = false;
    ReleaseAnswer(std::exchange(part_, {}).size());
    lowest().expires_never();
    if (error) {
      parts_.clear();
      NoteGone();
      return Close();
    }
    if (!parts_.empty()) return WriteNext();
    if (!ending_) {
      if (on_sent_) on_sent_();
      return;
    }
    Finish();
  }

  void Finish() {
    writing_ = true;
    lowest().expires_after(limits().transfer_time);
    net::async_write(stream_, http::make_chunk_last(), [self = this->shared_from_this()](const Error& error, auto) {
      self->writing_ = false;
      self->AnswerSent(error);
    });
  }

  /// Waits until the client closes its side. A client that sends its next request early is looked at again later.
  void WatchForClose() {
    lowest().socket().async_wait(net::socket_base::wait_read, [self = this->shared_from_this()](const Error& error) {
      if (error || !self->on_gone_) return;
      pollfd event{.fd = self->lowest().socket().native_handle(), .events = POLLRDHUP, .revents = 0};
      if (poll(&event, 1, 0) == 1) return self->NoteGone();
      self->gone_timer_.expires_after(kGoneCheckTime);
      self->gone_timer_.async_wait([self](const Error& timer_error) {
        if (!timer_error && self->on_gone_) self->WatchForClose();
      });
    });
  }

  void NoteGone() {
    if (const auto on_gone = std::exchange(on_gone_, {})) on_gone();
  }

  /// So many bytes in all. False if requests that are being received already take too much memory.
  bool Reserve(std::size_t bytes) {
    const std::size_t more = bytes - std::exchange(reserved_, bytes);
    if (server_->buffered_bytes.fetch_add(more) + more <= limits().max_buffered_bytes) return true;
    Release();
    return false;
  }
  void Release() { server_->buffered_bytes -= std::exchange(reserved_, 0); }

  /// False if the answers, and parts of them, that were not taken yet need too much memory already.
  bool ReserveAnswer(std::size_t bytes) {
    if (bytes <= kSmallBody) return true;
    unsent_ += bytes;
    if (server_->unsent_bytes.fetch_add(bytes) + bytes <= limits().max_unsent_bytes) return true;
    ReleaseAnswer(bytes);
    return false;
  }
  void ReleaseAnswer(std::size_t bytes) {
    if (bytes <= kSmallBody) return;
    // A connection that is closed has released all.
    const std::size_t released = std::min(bytes, unsent_);
    unsent_ -= released;
    server_->unsent_bytes -= released;
  }

  void CloseIfIdle(bool at_once) {
    if (!at_once && !idle_) return;
    NoteGone();
    Close();
  }

  void Close() {
    Release();
    ReleaseAnswer(unsent_);
    Error ignored;
    lowest().socket().shutdown(net::socket_base::shutdown_both, ignored);
    lowest().close();
    gone_timer_.cancel();
    on_sent_ = {};  // it may hold this connection
  }

  const std::shared_ptr<WebServerState> server_;  // first: the sockets need its context
  Stream stream_;
  net::steady_timer gone_timer_;
  std::string peer_;
  beast::flat_buffer buffer_{kMostHeaderBytes + 64 * 1024};
  std::optional<Parser> parser_;
  std::size_t reserved_ = 0;
  std::size_t unsent_ = 0;
  unsigned version_ = 11;
  bool idle_ = false;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool answered_ = true;
  bool active_ = false;   // a handler was asked and the answer is not sent
  bool refused_ = false;  // before the request was read

  std::optional<http::response<http::empty_body>> stream_head_;
  std::optional<http::response_serializer<http::empty_body>> stream_serializer_;
  std::deque<std::string> parts_;
  std::string part_;  // being written
  bool writing_ = false;
  bool ending_ = false;
  std::function<void()> on_sent_;
  std::function<void()> on_gone_;
};

}  // namespace

void BeginWebConnection(const std::shared_ptr<WebServerState>& server, net::ip::tcp::socket socket,
                        ssl::context* certificates) {
  if (certificates == nullptr) {
    return std::make_shared<Connection<beast::tcp_stream>>(server, std::move(socket))->Begin();
  }
  std::make_shared<Connection<beast::ssl_stream<beast::tcp_stream>>>(server, std::move(socket), *certificates)->Begin();
}

}  // namespace fulcrum::pipeline
