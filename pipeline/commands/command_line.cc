#include "pipeline/commands/command_line.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pipeline/cluster/cluster_round.h"
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

CLI::Validator WholeNumber() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return "";
    return absl::StrCat("'", text, "' is not a whole number from 0 to 18446744073709551615");
  };
  // Without a name the help text would show it a second time.
  return CLI::Validator(check, "");
}

absl::StatusOr<std::int64_t> ParseByteSize(absl::string_view text) {
  constexpr absl::string_view kUnits = "KMGT";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  absl::string_view unit = text.substr(digits);
  int shift = 0;
  if (!unit.empty() &&
      kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0]))) != absl::string_view::npos) {
    shift = 10 * static_cast<int>(kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0]))) + 1);
    unit.remove_prefix(1);
  }
  std::int64_t count = 0;
  const bool understood = absl::SimpleAtoi(text.substr(0, digits), &count) &&
                          (unit.empty() || absl::EqualsIgnoreCase(unit, "iB") || absl::EqualsIgnoreCase(unit, "B"));
  if (!understood || count <= 0 || count > (std::int64_t{1} << 62 >> shift)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a size; write it like 512MiB or 2GiB"));
  }
  return count << shift;
}

namespace {

// The program with its libraries, and what the allocator does not give back.
constexpr std::int64_t kProgramBytes = std::int64_t{128} << 20;

}  // namespace

void AddMemoryOption(CLI::App& app, std::string& memory, const std::string& group) {
  CLI::Option* const option =
      app.add_option("--memory", memory, "Memory that the command may use")->capture_default_str()->type_name("SIZE");
  if (!group.empty()) option->group(group);
}

absl::StatusOr<ingest::InputLimits> LimitsOf(const std::string& memory) {
  const auto bytes = ParseByteSize(memory);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat("--memory: ", bytes.status().message()));
  ingest::InputLimits limits;
  limits.max_memory_bytes = *bytes - std::min(kProgramBytes, *bytes / 2);
  return limits;
}

absl::Status WithMemoryAdvice(const absl::Status& status, const std::string& memory) {
  // A full disk has the same code, and more memory does not help.
  const bool disk = absl::StrContains(status.message(), std::strerror(ENOSPC));
  if (!absl::IsResourceExhausted(status) || disk) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "\n  what to do: --memory is ", memory, "; allow more, or split the file"));
}

void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns) {
  const char* group = "Columns";
  app.add_option("--id", columns.id, "Column with the ids; default: 'id' if it exists, otherwise row numbers")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--label", columns.label, "Column with the labels; default: 'label' if it exists")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--cost", columns.cost, "Column with the cost of a label")->type_name("COLUMN")->group(group);
  app.add_option("--payload", columns.payload,
                 "Column with what a person needs to see to label the row; kept unchanged")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--features", columns.features, "The features, separated by commas; default: all other columns")
      ->delimiter(',')
      ->type_name("COLUMNS")
      ->group(group);
  app.add_option("--ignore", columns.ignored, "Columns that are not used, separated by commas")
      ->delimiter(',')
      ->type_name("COLUMNS")
      ->group(group);
}

void AddConnectionOptions(CLI::App& app, ConnectionOptions& options) {
  constexpr char kGroup[] = "Server";
  app.add_option("--server", options.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->envname("FULCRUM_SERVER")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--token-file", options.token_file, "File with the access token; default: the variable FULCRUM_TOKEN")
      ->type_name("FILE")
      ->envname("FULCRUM_TOKEN_FILE")
      ->group(kGroup);
  app.add_option("--tls-ca", options.tls_ca, "CA certificates of the server, in PEM format; enables TLS")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CA")
      ->group(kGroup);
  app.add_option("--tls-cert", options.tls_cert, "Client certificate, if the server requires one (mutual TLS)")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CERT")
      ->group(kGroup);
  app.add_option("--tls-key", options.tls_key, "Private key of --tls-cert")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_KEY")
      ->group(kGroup);
}

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return kExitBadData;
    case absl::StatusCode::kOutOfRange:
      return kExitNothingLeft;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTryAgain;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitNotAllowed;
    default:
      return kExitInternal;
  }
}

const char* ExitCodeHelp() {
  return "Exit codes:\n"
         "   0  done\n"
         "   2  usage: an option is unknown, missing or out of its range\n"
         "  65  bad data: a file is missing, damaged, cannot be read or does not match the others\n"
         "  70  internal error: please report it\n"
         "  75  try again: out of memory or disk space, or the server is unavailable\n"
         "  77  not allowed: the token is missing, unknown, or has the wrong role\n"
         "  99  nothing left to select";
}

}  // namespace fulcrum::pipeline
