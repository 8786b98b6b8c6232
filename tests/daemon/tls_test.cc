// TLS: client authentication, and certificates that change while the daemon runs. openssl creates the certificates.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/server/transport/frame_guard.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/raw_connections.h"
#include "tests/support/http2_frames.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

class TlsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("san.cnf", "subjectAltName=IP:127.0.0.1\n");
    for (const char* authority : {"ours", "others"}) {
      OpenSsl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", absl::StrCat("/CN=", authority), "-keyout", Key(authority), "-out", Certificate(authority)});
    }
    Issue("server", "ours");
    Issue("client", "ours");
    Issue("stranger", "others");
  }

  std::string Certificate(const std::string& name) const { return folder_.File(name + ".pem"); }
  std::string Key(const std::string& name) const { return folder_.File(name + ".key"); }
  std::string Read(const std::string& path) const {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static void OpenSsl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/usr/bin/openssl");
    const ProcessResult result = RunProcess(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  }
  /// Creates a key and its certificate, signed by an authority.
  void Issue(const std::string& name, const std::string& authority) const {
    OpenSsl({"req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
             absl::StrCat("/CN=", name), "-keyout", Key(name), "-out", folder_.File(name + ".csr")});
    OpenSsl({"x509", "-req", "-in", folder_.File(name + ".csr"), "-CA", Certificate(authority), "-CAkey",
             Key(authority), "-set_serial", "7", "-days", "2", "-extfile", folder_.File("san.cnf"), "-out",
             Certificate(name)});
  }
  pipeline::DaemonOptions TlsOptions() const {
    pipeline::DaemonOptions options = Options();
    options.server.tls_certificate = Certificate("server");
    options.server.tls_key = Key("server");
    options.server.tls_check_time = std::chrono::seconds(1);
    return options;
  }
  /// Returns the result of a call by a client that trusts this authority and, if `shown` is set, presents that
  /// certificate.
  grpc::Status Call(const std::string& trusted, const std::string& shown = "") const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = Read(Certificate(trusted));
    if (!shown.empty()) {
      options.pem_cert_chain = Read(Certificate(shown));
      options.pem_private_key = Read(Key(shown));
    }
    return Call(grpc::SslCredentials(options));
  }
  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", daemon_->port()), credentials, arguments);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::GetVersionResponse response;
    return v1::ServerService::NewStub(channel)->GetVersion(&context, {}, &response);
  }
};

TEST_F(TlsTest, ClientsThatKnowTheServerAreServedAndPlainOnesAreNot) {
  StartDaemon(TlsOptions());
  const grpc::Status served = Call("ours");
  EXPECT_TRUE(served.ok()) << served.error_message();
  EXPECT_EQ(Call("others").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, ClientsMustShowACertificateIfTheServerAsksForOne) {
  pipeline::DaemonOptions options = TlsOptions();
  options.server.tls_client_authorities = Certificate("ours");
  StartDaemon(options);
  const grpc::Status served = Call("ours", "client");
  EXPECT_TRUE(served.ok()) << served.error_message();
  EXPECT_EQ(Call("ours").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call("ours", "stranger").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, ANewCertificateIsTakenUpWithoutARestart) {
  StartDaemon(TlsOptions());
  ASSERT_TRUE(Call("ours").ok());
  ASSERT_FALSE(Call("others").ok());
  Issue("server", "others");
  // The files are checked once per second; every call is a new connection and uses the last version that was read.
  grpc::Status status;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do status = Call("others");
  while (!status.ok() && std::chrono::steady_clock::now() < deadline);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(Call("ours").ok());
}

TEST_F(TlsTest, AFloodOfResetsEndsTheConnection) {
  // OpenSSL writes without MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
  StartDaemon(TlsOptions());
  const std::int64_t before = pipeline::ConnectionsClosedForFloods();
  RawConnections connections(daemon_->port());
  connections.Open("");
  ASSERT_EQ(connections.size(), 1u);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> client(SSL_new(context.get()), SSL_free);
  const std::string protocols = "\x02h2";
  SSL_set_alpn_protos(client.get(), reinterpret_cast<const unsigned char*>(protocols.data()), 3);
  SSL_set_fd(client.get(), connections.descriptor(0));
  ASSERT_EQ(SSL_connect(client.get()), 1);
  const auto send = [&](const std::string& bytes) {
    return SSL_write(client.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  };
  ASSERT_TRUE(send(kHttp2Preface + Frame(4, 0, 0, "")));
  std::uint32_t stream = 1;
  while (send(RequestFrame(stream, "/fulcrum.v1.ServerService/GetVersion") + ResetFrame(stream)) && stream < 40'000) {
    stream += 2;
  }
  EXPECT_LT(stream, 40'000u) << "the connection is still open";
  EXPECT_EQ(pipeline::ConnectionsClosedForFloods(), before + 1);
  EXPECT_TRUE(Call("ours").ok());
}

TEST_F(TlsTest, WithTlsAndTokensItListensBeyondTheLoopback) {
  pipeline::DaemonOptions options = TlsOptions();
  options.server.address = "0.0.0.0:0";
  EXPECT_EQ(pipeline::Daemon::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.ask_for_tokens = true;
  StartDaemon(options);
  EXPECT_TRUE(Call("ours").ok());
}

}  // namespace
}  // namespace fulcrum::testing
