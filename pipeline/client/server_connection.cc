#include "pipeline/client/server_connection.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// The bearer token that a client sends to the server.
//
// It comes from a file or the environment, never from the command line, where every user of the machine could read it.

constexpr std::size_t kMostBytes = 4096;

// Anything else cannot travel in a header, and would make gRPC fail without saying why.
absl::StatusOr<std::string> CheckToken(const std::string& text, const std::string& origin) {
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(origin, " holds no token"));
  const bool sound = token.size() <= kMostBytes && std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  if (sound) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(origin, " does not hold a token: it must be one word of printable characters"));
}

/// The token in the file, or where no file is named that in FULCRUM_TOKEN, or an empty one. Spaces and line ends around
/// it are removed. No message ever contains it.
absl::StatusOr<std::string> LoadAccessToken(const std::string& token_file) {
  if (token_file.empty()) {
    const char* value = std::getenv("FULCRUM_TOKEN");
    if (value == nullptr || *value == '\0') return std::string();
    return CheckToken(value, "FULCRUM_TOKEN");
  }
  std::ifstream stream(token_file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file: cannot read '", token_file, "'; name a file that holds a token and nothing else"));
  }
  return CheckToken(text, absl::StrCat("--token-file: '", token_file, "'"));
}

absl::StatusOr<std::string> ReadPem(const std::string& option, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream stream(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (stream && absl::StrContains(text, "-----BEGIN ")) return text;
  return absl::InvalidArgumentError(absl::StrCat(option, ": '", path, "' ",
                                                 stream ? "is not a PEM file" : "cannot be read",
                                                 "; name a file in PEM format, which begins with '-----BEGIN'"));
}

bool IsLocal(const std::string& server) {
  return absl::StartsWith(server, "127.") || absl::StartsWith(server, "localhost:") ||
         absl::StartsWith(server, "[::1]:") || absl::StartsWith(server, "unix:");
}

absl::Status CheckOptions(const ConnectionOptions& options, bool has_token) {
  if (options.server.empty() || !absl::StrContains(options.server, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--server is '", options.server, "'; it must be HOST:PORT, such as 127.0.0.1:7410"));
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key must be given together");
  }
  if (options.tls_ca.empty() && !options.tls_cert.empty()) {
    return absl::InvalidArgumentError("--tls-cert needs --tls-ca, to verify the server");
  }
  if (has_token && options.tls_ca.empty() && !IsLocal(options.server)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token would be sent to ", options.server, " unencrypted; give --tls-ca to use TLS"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ConnectionOptions& options) {
  if (options.tls_ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  FULCRUM_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem("--tls-ca", options.tls_ca));
  FULCRUM_ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadPem("--tls-cert", options.tls_cert));
  FULCRUM_ASSIGN_OR_RETURN(ssl.pem_private_key, ReadPem("--tls-key", options.tls_key));
  return grpc::SslCredentials(ssl);
}

grpc::ChannelArguments MakeArguments(const ConnectionOptions& options) {
  grpc::ChannelArguments arguments;
  // gRPC's own pauses grow to two minutes; a daemon that was restarted should be found again at once.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  if (IsLocal(options.server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

ServerConnection::ServerConnection(std::string server, std::string token, std::shared_ptr<grpc::Channel> channel)
    : server_(std::move(server)), token_(std::move(token)), channel_(std::move(channel)) {}

absl::StatusOr<std::shared_ptr<const ServerConnection>> ServerConnection::Open(const ConnectionOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(std::string token, LoadAccessToken(options.token_file));
  FULCRUM_RETURN_IF_ERROR(CheckOptions(options, !token.empty()));
  FULCRUM_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options));
  auto channel = grpc::CreateCustomChannel(options.server, credentials, MakeArguments(options));
  return std::shared_ptr<const ServerConnection>(
      new ServerConnection(options.server, std::move(token), std::move(channel)));
}

void ServerConnection::Prepare(std::chrono::milliseconds deadline, grpc::ClientContext& context) const {
  if (!token_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token_));
  if (deadline.count() > 0) context.set_deadline(std::chrono::system_clock::now() + deadline);
}

}  // namespace fulcrum::pipeline
