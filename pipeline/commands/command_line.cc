#include "pipeline/commands/command_line.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/cluster/mpi_communicator.h"
#include "pipeline/commands/exit_codes.h"
#include "pipeline/text/spec_reader.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "pipeline/text/version.h"

namespace fulcrum::pipeline {
namespace {

struct AddedCommand {
  CLI::App* app = nullptr;
  CommandRun run;
  Command::Processes processes = Command::Processes::kOne;
};

std::vector<AddedCommand> AddCommands(CLI::App& program) {
  std::vector<AddedCommand> added;
  for (const Command& command : Commands()) {
    CLI::App* app = program.add_subcommand(command.name, command.summary);
    app->group(command.group);
    app->get_formatter()->column_width(34);
    added.push_back({app, command.add(*app), command.processes});
  }
  return added;
}

void PrintError(const std::string& who, absl::string_view message) {
  std::fprintf(stderr, "%s: %s\n", who.c_str(), PrintableText({message.data(), message.size()}).c_str());
}

const CLI::App& DeepestParsed(const CLI::App& program) {
  const CLI::App* deepest = &program;
  for (auto parsed = deepest->get_subcommands(); !parsed.empty(); parsed = deepest->get_subcommands()) {
    deepest = parsed.front();
  }
  return *deepest;
}

// "fulcrum campaign list"
std::string FullName(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : absl::StrCat(FullName(*app.get_parent()), " ", app.get_name());
}

std::vector<std::string> KnownNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// CLI11 reports the unexpected words only; this adds the nearest known one.
std::string UnexpectedWords(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  if (words.empty()) return "";
  const std::string word = words.front().substr(0, words.front().find('='));
  const bool takes_commands = !app.get_subcommands([](const CLI::App*) { return true; }).empty();
  const std::string kind = absl::StartsWith(word, "-") ? "option" : takes_commands ? "command" : "argument";
  const std::string nearest = NearestName(word, KnownNames(app));
  return absl::StrCat("unknown ", kind, " '", word, "'",
                      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
}

/// Errors of words and options are the same in all processes of a launcher, and one of them reports them.
bool ReportsForAll() {
  return LaunchedRank() == 0;
}

int ReportUsageError(const CLI::App& program, const CLI::ParseError& error) {
  if (!ReportsForAll()) return kExitUsage;
  const CLI::App& app = DeepestParsed(program);
  const std::string name = FullName(app);
  std::string message = UnexpectedWords(program);
  if (!message.empty()) message = UnexpectedWords(app).empty() ? message : UnexpectedWords(app);
  PrintError(name, message.empty() ? error.what() : message);
  std::fprintf(stderr, "Run '%s --help' for usage.\n", name.c_str());
  return kExitUsage;
}

absl::Status RunGuarded(const AddedCommand& command) {
  if (const int processes = LaunchedProcesses(); processes > 1 && command.processes == Command::Processes::kOne) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a launcher started this command ", processes,
        " times, and it does not divide its work: every process would do all of it. Start it once, without the "
        "launcher"));
  }
  try {
    return command.run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "out of memory; free some, or use a smaller pool, and run again. No output was written");
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("unexpected error: ", exception.what()));
  }
}

int RunChosen(const CLI::App& program, const std::vector<AddedCommand>& commands) {
  for (const AddedCommand& command : commands) {
    if (!command.app->parsed()) continue;
    const absl::Status status = RunGuarded(command);
    const std::string name = FullName(DeepestParsed(*command.app));
    if (!ReportsForAll() && command.processes != Command::Processes::kIndependent) return ExitCodeFor(status);
    if (!status.ok()) PrintError(name, status.message());
    if (absl::IsInvalidArgument(status)) {
      std::fprintf(stderr, "Run '%s --help' for usage.\n", name.c_str());
    }
    return ExitCodeFor(status);
  }
  std::fputs(program.help().c_str(), stdout);
  return kExitDone;
}

std::string Versions() {
  return HasMpi() ? absl::StrCat(VersionText(), "\n  MPI              yes") : VersionText();
}

int ParseAndRun(int argc, char** argv) {
  CLI::App program("Finds the examples worth labeling, by statistical leverage scores.", "fulcrum");
  program.set_version_flag("--version", &Versions, "Print the versions of fulcrum and of its libraries");
  program.footer(absl::StrCat("'fulcrum COMMAND --help' describes a command.\n\n", ExitCodeHelp()));
  program.get_formatter()->column_width(34);
  const std::vector<AddedCommand> commands = AddCommands(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    // Help or version: printed to standard output.
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    return ReportUsageError(program, error);
  }
  return RunChosen(program, commands);
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  // A closed pipe is an error like any other, so that unfinished outputs are removed.
  std::signal(SIGPIPE, SIG_IGN);
  LeaveOutLibraryLines();
  try {
    return ParseAndRun(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("fulcrum: out of memory; run again\n", stderr);
    return kExitTryAgain;
  } catch (const std::exception& exception) {
    PrintError("fulcrum", absl::StrCat("unexpected error: ", exception.what()));
    return kExitInternal;
  }
}

const std::vector<Command>& Commands() {
  static const auto* const commands = new std::vector<Command>{
      CampaignCommand(), OperationsCommand(), ItemsCommand(),    AnnotatorsCommand(), UploadCommand(),
      WorkCommand(),     SelectCommand(),     GenerateCommand(), ImportCommand(),     InspectCommand(),
      ConvertCommand(),  ExperimentCommand(), ServeCommand(),    RoundCommand(),      TokenCommand(),
      ExportCommand(),   BackupCommand(),     RestoreCommand(),  FsckCommand(),
  };
  return *commands;
}

}  // namespace fulcrum::pipeline
