// `fulcrum serve`: the daemon.
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/operation/daemon.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/text/spec_reader.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

/// Values from the command line.
struct ServeFlags {
  std::string config = {};
  std::optional<std::string> data = {};
  std::optional<std::string> pools = {};
  std::optional<std::string> listen = {};
  std::optional<std::string> tls_cert = {};
  std::optional<std::string> tls_key = {};
  std::optional<std::string> tls_client_ca = {};
  std::optional<std::string> metrics = {};
  std::optional<std::string> web = {};
  std::optional<std::string> memory_budget = {};
  std::optional<std::string> log = {};
  bool no_tokens = false;
  bool reflection = false;
};

struct ServeOptions {
  DaemonOptions daemon = {};
  LogFormat log = LogFormat::kText;
};

constexpr char kDefaultAddress[] = "127.0.0.1:7410";
constexpr char kDefaultMetrics[] = "127.0.0.1:7411";
constexpr char kDefaultWeb[] = "127.0.0.1:7412";
constexpr char kOff[] = "off";
constexpr double kLongestStop = 3600;
constexpr double kLongestKeptHours = 24 * 366;

absl::StatusOr<YAML::Node> LoadYaml(const std::string& path) {
  if (!std::filesystem::exists(path))
    return absl::NotFoundError(absl::StrCat("there is no configuration '", path, "'"));
  try {
    return YAML::LoadFile(path);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
}

bool ReadSwitch(SpecFields& fields, const std::string& name, bool fallback) {
  return fields.Choice(name, {"false", "true"}, fallback ? 1 : 0) == 1;
}

const std::vector<std::string>& LogNames() {
  static const auto* const names = new std::vector<std::string>{"text", "json"};
  return *names;
}

/// "4GB", "512MB" or a number of bytes; nothing if it is neither.
std::optional<std::size_t> ParseBytes(std::string text) {
  std::size_t bytes = 0;
  const bool sound = CLI::AsSizeValue(/*kb_is_1000=*/false)(text).empty() && absl::SimpleAtoi(text, &bytes);
  return sound && bytes > 0 ? std::optional(bytes) : std::nullopt;
}

/// A configured address must be available; the default one is optional.
template <typename Options>
void SetAddress(const std::string& address, Options& listening) {
  listening.address = address == kOff ? "" : address;
  listening.may_fail = false;
}

absl::Status ReadConfig(const std::string& path, ServeOptions& serve) {
  DaemonOptions& options = serve.daemon;
  FULCRUM_ASSIGN_OR_RETURN(const YAML::Node document, LoadYaml(path));
  SpecProblems problems(path);
  SpecFields fields(problems, document, "");
  options.data_folder = fields.Text("data", "");
  options.pool_root = fields.Text("pools", ".");
  options.server.address = fields.Text("listen", kDefaultAddress);
  options.ask_for_tokens = ReadSwitch(fields, "tokens", true);
  options.server.reflection = ReadSwitch(fields, "reflection", false);
  if (const std::string metrics = fields.Text("metrics", ""); !metrics.empty()) SetAddress(metrics, options.watch);
  if (const std::string web = fields.Text("web", ""); !web.empty()) SetAddress(web, options.web);
  if (const std::string text = fields.Text("memory_budget", ""); !text.empty()) {
    const auto bytes = ParseBytes(text);
    if (!bytes) fields.Problem("memory_budget", absl::StrCat("is '", text, "'; write it like 4GB or 512MB"));
    options.memory_budget = bytes.value_or(0);
  }
  options.threads = static_cast<std::size_t>(fields.Number("threads", 0, {.low = 0, .high = 4096}));
  serve.log = static_cast<LogFormat>(fields.Choice("log", LogNames(), 0));
  const double seconds = fields.Number("stop_seconds", 20, {.low = 0, .high = kLongestStop});
  options.stop_time = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  if (const YAML::Node limits = fields.Take("limits"); limits.IsDefined()) {
    SpecFields values(problems, limits, "limits");
    options.server.max_connections = static_cast<std::size_t>(
        values.Number("connections", static_cast<double>(options.server.max_connections), {.low = 1, .high = 1e6}));
    options.server.max_concurrent_streams =
        static_cast<int>(values.Number("streams", options.server.max_concurrent_streams, {.low = 1, .high = 1e5}));
    options.rate.calls_a_second = values.Number("calls_a_second", options.rate.calls_a_second, {.low = 0, .high = 1e9});
    options.rate.burst = values.Number("burst", 2 * options.rate.calls_a_second, {.low = 1, .high = 1e9});
    options.most_campaigns = static_cast<std::size_t>(
        values.Number("campaigns", static_cast<double>(options.most_campaigns), {.low = 1, .high = 1e6}));
    values.RejectOthers();
  }
  fields.ForEachNamed("cluster_launchers",
                      [&](const std::string& name, const YAML::Node& command, const std::string& place) {
                        const std::string words = command.IsScalar() ? command.Scalar() : "";
                        if (absl::StripAsciiWhitespace(words).empty()) {
                          problems.Add(command, place, "must be a command such as mpirun -n 8");
                        }
                        options.launchers.commands[name] = words;
                      });
  if (const YAML::Node uploads = fields.Take("uploads"); uploads.IsDefined()) {
    SpecFields values(problems, uploads, "uploads");
    if (const std::string text = values.Text("limit", ""); !text.empty()) {
      const auto bytes = ParseBytes(text);
      if (!bytes) values.Problem("limit", absl::StrCat("is '", text, "'; write it like 20GB"));
      options.uploads.most_bytes = static_cast<std::int64_t>(bytes.value_or(0));
    }
    const double hours = values.Number("keep_hours", 24, {.low = 0.01, .high = kLongestKeptHours});
    options.uploads.keep_time = std::chrono::seconds(static_cast<std::int64_t>(hours * 3600));
    values.RejectOthers();
  }
  if (const YAML::Node tls = fields.Take("tls"); tls.IsDefined()) {
    SpecFields files(problems, tls, "tls");
    options.server.tls_certificate = files.RequiredText("cert");
    options.server.tls_key = files.RequiredText("key");
    options.server.tls_client_authorities = files.Text("client_ca", "");
    files.RejectOthers();
  }
  fields.RejectOthers();
  return problems.ToStatus();
}

absl::Status CheckFile(const std::string& option, const std::string& path) {
  if (path.empty() || std::filesystem::is_regular_file(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, ": there is no file '", path, "'"));
}

void AddServeOptions(CLI::App& app, ServeFlags& flags) {
  app.add_option("--config", flags.config, "YAML file with the options below")->type_name("FILE");
  app.add_option("--data", flags.data, "Folder of campaigns and tokens; made where it is absent")->type_name("DIR");
  app.add_option("--pools", flags.pools, "Folder that pools are read from (default: the current one)")
      ->type_name("DIR");
  app.add_option("--listen", flags.listen, "Address to listen on (default: 127.0.0.1:7410); others need TLS")
      ->type_name("HOST:PORT");
  app.add_option("--tls-cert", flags.tls_cert, "Certificate chain, PEM; read again when it changes")->type_name("FILE");
  app.add_option("--tls-key", flags.tls_key, "Its private key, PEM")->type_name("FILE");
  app.add_option("--tls-client-ca", flags.tls_client_ca, "Ask clients for certificates of these authorities")
      ->type_name("FILE");
  app.add_option("--metrics", flags.metrics,
                 "Address of /metrics, /healthz and /readyz over HTTP, or 'off' (default: 127.0.0.1:7411)")
      ->type_name("HOST:PORT");
  app.add_option(
         "--web", flags.web,
         "Address of the page and of the API as JSON over HTTP, or 'off' (default: 127.0.0.1:7412); others than "
         "loopback need TLS")
      ->type_name("HOST:PORT");
  app.add_option("--memory-budget", flags.memory_budget,
                 "Memory that pools may take, 32MB a campaign left for rounds; what does not fit is refused (default: "
                 "no limit)")
      ->type_name("BYTES");
  app.add_option("--log", flags.log, "How the log is written: text or json (default: text)")
      ->check(CLI::IsMember(LogNames()))
      ->type_name("FORMAT");
  app.add_flag("--no-tokens", flags.no_tokens, "Let every caller on this machine do everything; on loopback only");
  app.add_flag("--reflection", flags.reflection, "Let clients list the services");
}

// InvalidArgument with all problems of the file and all missing settings.
absl::StatusOr<ServeOptions> ResolveServeOptions(const ServeFlags& flags) {
  ServeOptions serve;
  DaemonOptions& options = serve.daemon;
  options.server.address = kDefaultAddress;
  options.watch = {.address = kDefaultMetrics, .may_fail = true};
  options.web = {.address = kDefaultWeb, .may_fail = true};
  if (!flags.config.empty()) FULCRUM_RETURN_IF_ERROR(ReadConfig(flags.config, serve));
  if (flags.metrics) SetAddress(*flags.metrics, options.watch);
  if (flags.web) SetAddress(*flags.web, options.web);
  if (flags.memory_budget) {
    const auto bytes = ParseBytes(*flags.memory_budget);
    if (!bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--memory-budget is '", *flags.memory_budget, "'; write it like 4GB or 512MB"));
    }
    options.memory_budget = *bytes;
  }
  if (flags.log) serve.log = *flags.log == LogNames()[1] ? LogFormat::kJson : LogFormat::kText;
  if (flags.data) options.data_folder = *flags.data;
  if (flags.pools) options.pool_root = *flags.pools;
  if (flags.listen) options.server.address = *flags.listen;
  if (flags.tls_cert) options.server.tls_certificate = *flags.tls_cert;
  if (flags.tls_key) options.server.tls_key = *flags.tls_key;
  if (flags.tls_client_ca) options.server.tls_client_authorities = *flags.tls_client_ca;
  if (flags.no_tokens) options.ask_for_tokens = false;
  if (flags.reflection) options.server.reflection = true;
  if (options.data_folder.empty())
    return absl::InvalidArgumentError("--data (or 'data' in the configuration) must name a folder");
  if (options.server.tls_certificate.empty() != options.server.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together; one of them is missing");
  }
  FULCRUM_RETURN_IF_ERROR(CheckFile("--tls-cert", options.server.tls_certificate));
  FULCRUM_RETURN_IF_ERROR(CheckFile("--tls-key", options.server.tls_key));
  FULCRUM_RETURN_IF_ERROR(CheckFile("--tls-client-ca", options.server.tls_client_authorities));
  return serve;
}

constexpr char kServeFooter[] = R"(The configuration is a YAML file with the long options as fields, '-' written as '_':
  data: /var/lib/fulcrum
  pools: /srv/pools
  listen: 127.0.0.1:7410
  tokens: true
  tls: {cert: server.pem, key: server.key, client_ca: clients.pem}
  reflection: false
  metrics: 127.0.0.1:7411    # /metrics for Prometheus, /healthz and /readyz for probes, over plain HTTP; or off
  web: 127.0.0.1:7412        # the page for people and the API as JSON, over HTTP or, with tls, HTTPS; or off
  memory_budget: 4GB         # a pool that does not fit next to the others is refused
  log: text                  # or json: one line per event, on standard error
  stop_seconds: 20
  threads: 0                 # of all rounds together; 0 for one per core
  limits: {connections: 10000, streams: 100, calls_a_second: 1000, burst: 2000, campaigns: 10000}
  uploads: {limit: 20GB, keep_hours: 24}   # of the files that clients send to be pools
  cluster_launchers: {eight: mpirun -n 8}  # commands that campaigns may name to compute their rounds; default: none
Options on the command line override the file. 'streams' limits the concurrent calls of one connection;
'calls_a_second' limits the calls of one token, 0 for no limit.

SIGTERM and SIGINT stop the daemon: it accepts no more calls, finishes those that are running, cancels rounds, and
exits with 0. If something does not stop, it exits with 75 after stop_seconds. A daemon that is killed loses nothing
that it has acknowledged; restart it and the campaigns continue. Under systemd it reports when it is ready
(Type=notify) and sends watchdog heartbeats while its listener, its calls and its stores respond.

Example:
  fulcrum token create --data ./data --name me --role admin > me.token
  fulcrum serve --data ./data --pools ./pools)";

// For what comes after the last call: rounds are cancelled, stores are closed.
constexpr std::chrono::seconds kStopMargin{10};

/// Signals as a file descriptor. They are blocked before any thread is created, so that no thread receives them.
int BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

/// Ends the start of the daemon if a signal comes before it serves: opening many campaigns takes its time. The signal
/// stays readable.
class StartGuard {
 public:
  StartGuard(int signals, std::chrono::milliseconds stop_time)
      : ended_(eventfd(0, EFD_CLOEXEC)), thread_([this, signals, stop_time] { Watch(signals, stop_time); }) {}
  ~StartGuard() {
    const std::uint64_t one = 1;
    if (write(ended_, &one, sizeof(one)) < 0) std::abort();
    thread_.join();
    close(ended_);
  }
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Watch(int signals, std::chrono::milliseconds stop_time) {
    pollfd events[] = {{.fd = signals, .events = POLLIN, .revents = 0}, {.fd = ended_, .events = POLLIN, .revents = 0}};
    while (poll(events, 2, -1) < 0 && errno == EINTR) {
    }
    if (events[0].revents == 0 || events[1].revents != 0) return;
    timer_.emplace(stop_time, Daemon::kForcedExit);
    stop_.request_stop();
    NotifyStopping(stop_time + kStopMargin);
    Log(LogLevel::kInfo, "stopping before all campaigns are open");
  }

  const int ended_;
  std::stop_source stop_;
  std::optional<ExitTimer> timer_;
  std::jthread thread_;  // last: it uses all of the above
};

void LogListening(const DaemonOptions& options, const Daemon& daemon) {
  Log(LogLevel::kInfo, "listening",
      {{"address", options.server.address},
       {"port", std::int64_t{daemon.port()}},
       {"metrics_port", std::int64_t{daemon.watch_port()}},
       {"web_port", std::int64_t{daemon.web_port()}},
       {"tokens", options.ask_for_tokens},
       {"tls", !options.server.tls_certificate.empty()},
       {"data", options.data_folder}});
}

absl::Status Serve(const ServeOptions& serve) {
  StartLog(serve.log);
  const DaemonOptions& options = serve.daemon;
  const int signals = BlockSignals();
  if (signals < 0) return absl::UnavailableError("signalfd: cannot create a file descriptor for signals");
  absl::StatusOr<std::unique_ptr<Daemon>> started;
  {
    const StartGuard guard(signals, options.stop_time);
    started = Daemon::Start(options, guard.token());
    if (absl::IsCancelled(started.status()) && guard.token().stop_requested()) {
      Log(LogLevel::kInfo, "stopped");
      return absl::OkStatus();
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto daemon, std::move(started));
  LogListening(options, *daemon);
  NotifyReady();
  const absl::Status ended = daemon->Wait(signals);
  // From here on nothing may wait without end, the log included.
  const ExitTimer timer(options.stop_time, Daemon::kForcedExit);
  if (!ended.ok()) {
    Log(LogLevel::kError, "the store cannot continue", {{"reason", std::string(ended.message())}});
  }
  Log(LogLevel::kInfo, "stopping");
  NotifyStopping(options.stop_time + kStopMargin);
  const absl::Status stopped = daemon->Stop();
  close(signals);
  Log(LogLevel::kInfo, "stopped");
  FULCRUM_RETURN_IF_ERROR(ended);
  return stopped;
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .group = "Daemon",
          .summary = "Run the daemon: campaigns and labeling workers over gRPC",
          .add = [](CLI::App& app) -> CommandRun {
            const auto flags = std::make_shared<ServeFlags>();
            AddServeOptions(app, *flags);
            app.footer(kServeFooter);
            return [flags]() -> absl::Status {
              FULCRUM_ASSIGN_OR_RETURN(const ServeOptions options, ResolveServeOptions(*flags));
              return Serve(options);
            };
          }};
}

}  // namespace fulcrum::pipeline
