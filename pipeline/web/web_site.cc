#include "pipeline/web/web_site.h"

#include <google/protobuf/descriptor.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/version.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kUnaryType[] = "application/json";
constexpr char kStreamType[] = "application/connect+json";
constexpr char kDescriptors[] = "/api.binpb";
constexpr char kFilesPrefix[] = "/files/";
constexpr char kCallerPath[] = "/fulcrum.v1.AccessService/GetCaller";
constexpr int kSessionSeconds = 12 * 3600;
constexpr std::size_t kLongestTimeoutDigits = 10;

// Payloads may be images, sounds and videos of other servers, by https; everything else comes from this server.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob: https:; "
    "media-src 'self' data: blob: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr char kFilePolicy[] = "default-src 'none'; sandbox";

std::string EndingOf(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : absl::AsciiStrToLower(path.substr(dot + 1));
}

const char* PageTypeOf(const std::string& path) {
  const std::string ending = EndingOf(path);
  if (ending == "js") return "text/javascript; charset=utf-8";
  if (ending == "css") return "text/css; charset=utf-8";
  if (ending == "svg") return "image/svg+xml";
  if (ending == "json") return "application/json";
  return "text/html; charset=utf-8";
}

void AddSecurity(WebHeaders& headers, const char* policy) {
  for (const auto& header : WebHeaders{{"Content-Security-Policy", policy},
                                       {"X-Content-Type-Options", "nosniff"},
                                       {"Referrer-Policy", "no-referrer"},
                                       {"Cross-Origin-Resource-Policy", "same-origin"},
                                       {"Cross-Origin-Opener-Policy", "same-origin"}}) {
    headers.push_back(header);
  }
}

void Answer(WebExchange& exchange, WebReply reply) {
  reply.headers.emplace_back("Cache-Control", "no-store");
  AddSecurity(reply.headers, kPolicy);
  exchange.Reply(std::move(reply));
}

void AnswerError(WebExchange& exchange, const absl::Status& status, std::optional<int> code = {}) {
  Answer(exchange, {.status = code.value_or(HttpStatusOf(status)), .body = ErrorJson(status)});
}

std::string Compress(std::string_view text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (deflateInit2(&stream, 9, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

/// A file of the page, plain and compressed, with a tag that changes with the content.
struct Page {
  std::string plain;
  std::string compressed;
  std::string tag;
};

const std::map<std::string, Page>& Pages() {
  static const auto* const pages = [] {
    auto* all = new std::map<std::string, Page>;
    const auto add = [&](std::string path, const std::string& content) {
      const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
      all->emplace(std::move(path),
                   Page{content, Compress(content), absl::StrCat("\"", absl::Hex(sum), "-", content.size(), "\"")});
    };
    for (const WebAsset& asset : WebAssets()) {
      if (asset.path == kDescriptors) {
        add("/openapi.json", OpenApiDocument(asset.content, ProgramVersion()));
      } else {
        add(std::string(asset.path), std::string(asset.content));
      }
    }
    return all;
  }();
  return *pages;
}

void SendPage(const Page& page, const WebRequest& request, WebExchange& exchange) {
  WebReply reply{.type = PageTypeOf(request.path)};
  // Asked for again each time, and not sent again unless it has changed: a new version is never mixed with an old one.
  reply.headers = {{"Cache-Control", "no-cache"}, {"ETag", page.tag}, {"Vary", "Accept-Encoding"}};
  AddSecurity(reply.headers, kPolicy);
  if (request.header("if-none-match") == page.tag) {
    reply.status = 304;
  } else if (absl::StrContains(request.header("accept-encoding"), "gzip") && !page.compressed.empty()) {
    reply.headers.emplace_back("Content-Encoding", "gzip");
    reply.body = page.compressed;
  } else {
    reply.body = page.plain;
  }
  exchange.Reply(std::move(reply));
}

bool IsLoopbackName(std::string host) {
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.back() != ']') host.resize(colon);
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

/// Cookies are sent to every port of a host, so the port is part of the name.
std::string CookieName(const WebRequest& request) {
  const std::string host = request.header("host");
  const std::size_t colon = host.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(host.substr(colon + 1), &port)) port = 0;
  return absl::StrCat(request.tls ? "__Host-" : "", "fulcrum-", port);
}

/// Whether the browser reached this page over TLS, which a proxy in front of this server may have ended. What sets or
/// removes a cookie is no GET, so that the browser names its origin.
const char* SecureAttribute(const WebRequest& request) {
  return request.tls || absl::StartsWith(request.header("origin"), "https://") ? "; Secure" : "";
}

/// The value of the header "authorization", or what the session stands for.
std::string AuthorizationOf(const WebRequest& request) {
  if (std::string given = request.header("authorization"); !given.empty()) return given;
  const std::string prefix = CookieName(request) + "=";
  const std::string cookies = request.header("cookie");
  for (absl::string_view cookie : absl::StrSplit(cookies, "; ")) {
    if (absl::ConsumePrefix(&cookie, prefix)) return absl::StrCat("Bearer ", cookie);
  }
  return {};
}

/// "%41" -> "A". Nothing if it is malformed.
std::optional<std::string> Unescape(absl::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size() || !absl::SimpleHexAtoi(text.substr(i + 1, 2), &value)) return std::nullopt;
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

/// What makes the request a call by the Connect protocol.
absl::StatusOr<GatewayCall> ReadCall(const google::protobuf::MethodDescriptor& method, WebRequest& request) {
  GatewayCall call{.method = &method, .peer = request.peer};
  if (const std::string version = request.header("connect-protocol-version"); !version.empty() && version != "1") {
    return absl::InvalidArgumentError(absl::StrCat("Connect-Protocol-Version is '", version, "'; this server has 1"));
  }
  const char* const encoding = method.server_streaming() ? "connect-content-encoding" : "content-encoding";
  if (const std::string used = request.header(encoding); !used.empty() && used != "identity") {
    return absl::UnimplementedError(absl::StrCat("compressed requests are not supported; leave ", encoding, " out"));
  }
  if (const std::string text = request.header("connect-timeout-ms"); !text.empty()) {
    std::int64_t milliseconds = 0;
    if (text.size() > kLongestTimeoutDigits || !absl::SimpleAtoi(text, &milliseconds) || milliseconds < 0) {
      return absl::InvalidArgumentError("Connect-Timeout-Ms is a number of milliseconds with at most 10 digits");
    }
    call.timeout = std::chrono::milliseconds(milliseconds);
  }
  call.body = std::move(request.body);
  return call;
}

}  // namespace

WebSite::WebSite(const Options& options, const std::shared_ptr<grpc::Channel>& channel)
    : options_(options), gateway_(channel), media_(options.pool_root) {
  Pages();
}

absl::Status WebSite::CheckOrigin(const WebRequest& request) const {
  const std::string host = request.header("host");
  if (!options_.tokens && !IsLoopbackName(host)) {
    return absl::PermissionDeniedError("a server without tokens answers only as localhost or under a loopback address");
  }
  if (request.method == "GET" || request.method == "HEAD") return absl::OkStatus();
  const std::string origin = request.header("origin");
  const std::size_t scheme = origin.find("://");
  const bool same = scheme != std::string::npos && origin.substr(scheme + 3) == host;
  // A browser names the origin in every POST. Other clients have no cookies that it could misuse.
  const bool has_cookie = absl::StrContains(request.header("cookie"), CookieName(request));
  if (same || (origin.empty() && !has_cookie)) return absl::OkStatus();
  return absl::PermissionDeniedError("this request comes from a page of another origin");
}

void WebSite::Handle(WebRequest request, const std::shared_ptr<WebExchange>& exchange) {
  if (const absl::Status status = CheckOrigin(request); !status.ok()) return AnswerError(*exchange, status);
  const bool reading = request.method == "GET" || request.method == "HEAD";
  if (request.path == "/session") {
    if (request.method == "POST") return SignIn(request, exchange);
    if (request.method != "DELETE") return AnswerError(*exchange, absl::UnimplementedError("use POST or DELETE"), 405);
    return Answer(*exchange, {.body = "{}",
                              .headers = {{"Set-Cookie", absl::StrCat(CookieName(request), "=; Max-Age=0; Path=/",
                                                                      SecureAttribute(request))}}});
  }
  if (const auto* const method = ConnectGateway::Find(request.path)) {
    if (request.method == "POST") return Call(*method, std::move(request), exchange);
    return AnswerError(*exchange, absl::UnimplementedError("calls are made by POST"), 405);
  }
  if (const auto page = Pages().find(request.path); reading && page != Pages().end()) {
    return SendPage(page->second, request, *exchange);
  }
  if (absl::StartsWith(request.path, kFilesPrefix)) {
    if (request.method == "GET") return SendFile(request, exchange);
    return AnswerError(*exchange, absl::UnimplementedError("files are read by GET"), 405);
  }
  AnswerError(*exchange, absl::UnimplementedError("there is nothing at this path"), 404);
}

void WebSite::Call(const google::protobuf::MethodDescriptor& method, WebRequest request,
                   const std::shared_ptr<WebExchange>& exchange) {
  if (const absl::Status status = ConnectGateway::CheckCallable(method); !status.ok()) {
    return AnswerError(*exchange, status);
  }
  const char* const type = method.server_streaming() ? kStreamType : kUnaryType;
  const std::string given = request.header("content-type");
  if (absl::StripAsciiWhitespace(given.substr(0, given.find(';'))) != type) {
    return AnswerError(*exchange, absl::InvalidArgumentError(absl::StrCat("the Content-Type of this call is ", type)),
                       415);
  }
  const std::string authorization = AuthorizationOf(request);
  absl::StatusOr<GatewayCall> call = ReadCall(method, request);
  if (call.ok()) call->authorization = authorization;
  if (!call.ok()) return AnswerError(*exchange, call.status());
  if (method.server_streaming()) return Stream(*std::move(call), exchange);
  const auto running = gateway_.RunUnary(*std::move(call), [exchange](absl::StatusOr<std::string> json) {
    if (!json.ok()) return AnswerError(*exchange, json.status());
    Answer(*exchange, {.body = *std::move(json)});
  });
  exchange->OnGone([running] { running->Cancel(); });
}

void WebSite::Stream(GatewayCall call, const std::shared_ptr<WebExchange>& exchange) {
  WebReply head{.type = kStreamType, .headers = {{"Cache-Control", "no-store"}}};
  AddSecurity(head.headers, kPolicy);
  exchange->BeginStream(std::move(head));
  const auto running = gateway_.RunStream(
      std::move(call),
      {.on_message = [exchange](std::string part) { exchange->SendPart(std::move(part)); },
       .on_end = [exchange](const absl::Status& status) { exchange->EndStream(EndOfStream(status)); }});
  exchange->OnSent([running] { running->ReadNext(); });
  exchange->OnGone([running] { running->Cancel(); });
}

void WebSite::SignIn(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange) {
  const auto body = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  const bool sound = body.is_object() && body.contains("token") && body["token"].is_string();
  const std::string token = sound ? body["token"].get<std::string>() : "";
  const bool plain = std::all_of(token.begin(), token.end(), [](unsigned char letter) {
    return absl::ascii_isalnum(letter) || letter == '_' || letter == '-' || letter == '=';
  });
  if (token.empty() || !plain) {
    return AnswerError(*exchange, absl::InvalidArgumentError(R"(sign in with {"token": "fulcrum_..."})"));
  }
  const std::string cookie = absl::StrCat(CookieName(request), "=", token, "; Max-Age=", kSessionSeconds,
                                          "; Path=/; HttpOnly; SameSite=Strict", SecureAttribute(request));
  gateway_.RunUnary(
      {.method = ConnectGateway::Find(kCallerPath), .authorization = "Bearer " + token, .peer = request.peer},
      [exchange, cookie, peer = request.peer](absl::StatusOr<std::string> caller) {
        if (!caller.ok()) {
          Log(LogLevel::kWarning, "sign-in refused",
              {{"peer", peer}, {"reason", std::string(caller.status().message())}});
          return AnswerError(*exchange, caller.status());
        }
        const auto who = nlohmann::json::parse(*caller, nullptr, /*allow_exceptions=*/false);
        Log(LogLevel::kInfo, "signed in", {{"name", who.value("caller", "")}, {"peer", peer}});
        Answer(*exchange, {.body = *std::move(caller), .headers = {{"Set-Cookie", cookie}}});
      });
}

void WebSite::SendFile(const WebRequest& request, const std::shared_ptr<WebExchange>& exchange) {
  const auto path = Unescape(absl::StripPrefix(absl::string_view(request.path), kFilesPrefix));
  if (!path) return AnswerError(*exchange, absl::InvalidArgumentError("the path is not escaped correctly"));
  gateway_.RunUnary(
      {.method = ConnectGateway::Find(kCallerPath), .authorization = AuthorizationOf(request), .peer = request.peer},
      [this, exchange, path = *path, range = request.header("range")](const auto& caller) {
        if (!caller.ok()) return AnswerError(*exchange, caller.status());
        // Kept for a moment: the next example is loaded before it is shown, and earlier ones are looked at.
        WebHeaders headers = {{"Cache-Control", "private, max-age=300"}, {"Vary", "Cookie, Authorization"}};
        AddSecurity(headers, kFilePolicy);
        media_.Send(path, range, std::move(headers), exchange);
      });
}

}  // namespace fulcrum::pipeline
