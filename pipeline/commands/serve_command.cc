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
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/operation/daemon.h"
#include "pipeline/operation/exit_timer.h"
#include "pipeline/operation/serve_config.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

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
