// A command of the program. Each lives in a file of its own and is named in one line of command_registry.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace fulcrum::pipeline {

/// Runs a command whose options have been parsed. Its error is printed by the caller and becomes the exit code.
using CommandRun = std::function<absl::Status()>;

struct Command {
  std::string name;
  std::string group;    ///< heading it is listed under
  std::string summary;  ///< one line
  /// Adds the command's options, whose values live in the function that is returned.
  std::function<CommandRun(CLI::App& app)> add;
};

}  // namespace fulcrum::pipeline
