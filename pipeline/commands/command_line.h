// From the arguments of the program to its exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace fulcrum::pipeline {

/// Parses the arguments, runs the command, prints its error if it has one. Never throws.
int RunCommandLine(int argc, char** argv);

// A command of the program. Each lives in a file of its own and is named in one line of command_registry.cc.

/// Runs a command whose options have been parsed. Its error is printed by the caller and becomes the exit code.
using CommandRun = std::function<absl::Status()>;

struct Command {
  std::string name;
  std::string group;    ///< heading it is listed under
  std::string summary;  ///< one line
  /// Adds the command's options, whose values live in the function that is returned.
  std::function<CommandRun(CLI::App& app)> add;
  /// What it does if a launcher (mpirun, srun) starts it several times. Most commands would do the same work several
  /// times and write the same files, so they refuse.
  enum class Processes { kOne, kDivideTheWork, kIndependent } processes = Processes::kOne;
};

// The commands there are. A new command is one file and one line in command_registry.cc.

/// In the order they are listed.
const std::vector<Command>& Commands();

Command CampaignCommand();
Command ItemsCommand();
Command OperationsCommand();
Command AnnotatorsCommand();
Command UploadCommand();
Command WorkCommand();
Command SelectCommand();
Command GenerateCommand();
Command ExperimentCommand();
Command ServeCommand();
Command RoundCommand();
Command TokenCommand();
Command ExportCommand();
Command BackupCommand();
Command RestoreCommand();
Command FsckCommand();
Command ConvertCommand();
Command ImportCommand();
Command InspectCommand();

}  // namespace fulcrum::pipeline
