// The configuration of the daemon, from a YAML file and the command line, which takes precedence. Plain functions and
// values.
#pragma once

#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "pipeline/operation/daemon.h"
#include "pipeline/text/structured_log.h"

namespace fulcrum::pipeline {

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

void AddServeOptions(CLI::App& app, ServeFlags& flags);

struct ServeOptions {
  DaemonOptions daemon = {};
  LogFormat log = LogFormat::kText;
};

/// InvalidArgument with all problems of the file and all missing settings.
absl::StatusOr<ServeOptions> ResolveServeOptions(const ServeFlags& flags);

}  // namespace fulcrum::pipeline
