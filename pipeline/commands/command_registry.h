// The commands there are. A new command is one file and one line in command_registry.cc.
#pragma once

#include <vector>

#include "pipeline/commands/command.h"

namespace fulcrum::pipeline {

/// In the order they are listed.
const std::vector<Command>& Commands();

Command CampaignCommand();
Command WorkCommand();
Command SelectCommand();
Command GenerateCommand();
Command ExperimentCommand();
Command ServeCommand();
Command TokenCommand();
Command ExportCommand();
Command BackupCommand();
Command RestoreCommand();
Command FsckCommand();
Command ConvertCommand();
Command ImportCommand();
Command InspectCommand();

}  // namespace fulcrum::pipeline
