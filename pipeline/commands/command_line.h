// From the arguments of the program to its exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/client/server_connection.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace fulcrum::v1 {
class Campaign;
class CampaignSpec;
class Upload;
}  // namespace fulcrum::v1

namespace fulcrum::storage {
struct ExportedLabel;
}  // namespace fulcrum::storage

namespace fulcrum::pipeline {

/// Parses the arguments, runs the command, prints its error if it has one. Never throws.
int RunCommandLine(int argc, char** argv);

// A command of the program. Each lives in a file of its own and is named in one line of command_line.cc.

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

// The commands there are. A new command is one file, its function here and one line in command_line.cc.

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

// Checks that options of several commands share.

/// A number without sign or fraction that fits 64 bits. CLI11 alone would turn -3 into a very large one.
CLI::Validator WholeNumber();

/// Bytes from "512MiB", "2GiB", "2G", "1048576"; powers of 1024. InvalidArgument for other text, and for none at all.
absl::StatusOr<std::int64_t> ParseByteSize(absl::string_view text);

// The option --memory of commands that read files: what the process may use in all.

/// --memory; `memory`, which must outlive the parsing, is the default.
void AddMemoryOption(CLI::App& app, std::string& memory, const std::string& group = "");

/// Limits for what a command reads: --memory without what the program itself takes. InvalidArgument if `memory` is not
/// a size.
absl::StatusOr<ingest::InputLimits> LimitsOf(const std::string& memory);

/// A ResourceExhausted status with the advice to allow more; others unchanged.
absl::Status WithMemoryAdvice(const absl::Status& status, const std::string& memory);

// Options about the columns of tables, which several commands share.

/// --id, --label, --cost, --payload and --features; the values go to `columns`, which must outlive the parsing.
void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns);

// The options by which every client command finds its server and shows who it is.

/// --server, --token-file, --tls-ca, --tls-cert, --tls-key. `options` must live as long as the app.
void AddConnectionOptions(CLI::App& app, ConnectionOptions& options);

// The exit codes of the program.

inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadData = 65;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitTryAgain = 75;
inline constexpr int kExitNotAllowed = 77;
inline constexpr int kExitNothingLeft = 99;

/// InvalidArgument is a wrong option; DataLoss, NotFound, FailedPrecondition and AlreadyExists are wrong
/// data; OutOfRange is nothing left to select; ResourceExhausted, Unavailable and DeadlineExceeded may pass;
/// Unauthenticated and PermissionDenied need another token; all others are internal errors.
int ExitCodeFor(const absl::Status& status);

/// The codes for people, one line each, as the help texts show them.
const char* ExitCodeHelp();

// The words after `fulcrum campaign`. A new one is one file and one line in campaign_command.cc.

/// What all of them take.
struct CampaignOptions {
  ConnectionOptions connection = {};
  std::string name = {};  ///< of the campaign
  bool json = false;
};

void AddCampaignName(CLI::App& app, CampaignOptions& options);
/// --json, and those of the connection.
void AddCampaignOptions(CLI::App& app, CampaignOptions& options);

/// To standard output: the text, or the message as JSON if that was asked for.
absl::Status PrintAnswer(const CampaignOptions& options, std::string_view text,
                         const google::protobuf::Message& message);
/// The same of one campaign.
absl::Status PrintCampaign(const CampaignOptions& options, const v1::Campaign& campaign);

/// Takes one exported label.
using UseLabel = std::function<absl::Status(const storage::ExportedLabel&)>;
/// Writes the labels that `visit` gives to a file, as CSV or, by its name, Parquet; "-" is CSV on standard output.
absl::Status WriteLabels(const std::string& out, const std::function<absl::Status(const UseLabel&)>& visit);

/// Sends a file to the server, with progress on the terminal.
absl::StatusOr<v1::Upload> UploadOneFile(const std::shared_ptr<const ServerConnection>& connection,
                                         const std::string& file);
/// Sends the local files that a specification names, and names the uploads instead. Returns their ids.
absl::StatusOr<std::vector<std::string>> UploadSources(const std::shared_ptr<const ServerConnection>& connection,
                                                       v1::CampaignSpec& spec);
/// As far as the server can be reached.
void DeleteUploads(const std::shared_ptr<const ServerConnection>& connection, const std::vector<std::string>& ids);

Command CampaignCreateCommand();
Command CampaignListCommand();
Command CampaignUpdateCommand();
Command CampaignGetCommand();
Command CampaignStartCommand();
Command CampaignPauseCommand();
Command CampaignResumeCommand();
Command CampaignStopCommand();
Command CampaignRetrainCommand();
Command CampaignDeleteCommand();
Command CampaignWatchCommand();
Command CampaignExportCommand();
Command CampaignImportLabelsCommand();
Command CampaignAppendCommand();
Command CampaignOfferCommand();
Command CampaignModelCommand();
Command CampaignPredictCommand();

// Whether this processor can run what was compiled for it.
//
// processor_check.cc is compiled for the oldest processors, unlike the rest of the program, and free of the standard
// library's templates: it must run where the rest would die of an illegal instruction.

/// The name of an instruction set that the program was built for and the processor lacks; null if it has all.
const char* MissingInstructionSet();

}  // namespace fulcrum::pipeline
