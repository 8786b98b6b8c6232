// `fulcrum serve`: the daemon.

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/operation/daemon.h"
#include "pipeline/operation/serve_config.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] = R"(The configuration is a YAML file with the long options as fields, '-' written as '_':
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
  FULCRUM_ASSIGN_OR_RETURN(const auto daemon, Daemon::Start(options));
  LogListening(options, *daemon);
  NotifyReady();
  const absl::Status ended = daemon->Wait(signals);
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
            app.footer(kFooter);
            return [flags]() -> absl::Status {
              FULCRUM_ASSIGN_OR_RETURN(const ServeOptions options, ResolveServeOptions(*flags));
              return Serve(options);
            };
          }};
}

}  // namespace fulcrum::pipeline
