#include "pipeline/commands/command_registry.h"

namespace fulcrum::pipeline {

const std::vector<Command>& Commands() {
  static const auto* const commands = new std::vector<Command>{
      CampaignCommand(), WorkCommand(),    SelectCommand(),     GenerateCommand(), ImportCommand(),
      InspectCommand(),  ConvertCommand(), ExperimentCommand(), ServeCommand(),    TokenCommand(),
      ExportCommand(),   BackupCommand(),  RestoreCommand(),    FsckCommand(),
  };
  return *commands;
}

}  // namespace fulcrum::pipeline
