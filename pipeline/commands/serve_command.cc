// `fulcrum serve`: the daemon.

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_registry.h"
#include "pipeline/daemon.h"
#include "pipeline/serve_config.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"
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
  stop_seconds: 20
  limits: {connections: 10000, streams: 100, calls_a_second: 1000, burst: 2000}
What is given on the command line goes before it. Streams are calls at a time on one connection; calls a second are those
of one token, 0 for any number.

SIGTERM and SIGINT end it: it takes no more calls, finishes those that are running, and exits with 0. A daemon that is
killed loses nothing that it has answered; start it again and the campaigns go on.

Example:
  fulcrum token create --data ./data --name me --role admin > me.token
  fulcrum serve --data ./data --pools ./pools)";

/// Signals as a file descriptor. Blocked before any thread is made, so that none of them gets them.
int BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

void LogToStandardError() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("fulcrum", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("time=%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
}

absl::Status Serve(const DaemonOptions& options) {
  LogToStandardError();
  const int signals = BlockSignals();
  if (signals < 0) return absl::UnavailableError("signalfd: the system gives no file descriptor for signals");
  FULCRUM_ASSIGN_OR_RETURN(const auto daemon, Daemon::Start(options));
  spdlog::info("listening address={} port={} tokens={} tls={} data={}", options.server.address, daemon->port(),
               options.ask_for_tokens, !options.server.tls_certificate.empty(), options.data_folder);
  const absl::Status ended = daemon->Wait(signals);
  if (!ended.ok()) spdlog::critical("the store cannot go on: {}", std::string(ended.message()));
  spdlog::info("stopping");
  const absl::Status stopped = daemon->Stop();
  close(signals);
  spdlog::info("stopped");
  FULCRUM_RETURN_IF_ERROR(ended);
  return stopped;
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .group = "Daemon",
          .summary = "Run campaigns and answer labeling workers over gRPC",
          .add = [](CLI::App& app) -> CommandRun {
            const auto flags = std::make_shared<ServeFlags>();
            AddServeOptions(app, *flags);
            app.footer(kFooter);
            return [flags]() -> absl::Status {
              FULCRUM_ASSIGN_OR_RETURN(const DaemonOptions options, ResolveServeOptions(*flags));
              return Serve(options);
            };
          }};
}

}  // namespace fulcrum::pipeline
