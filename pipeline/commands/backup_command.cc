// `fulcrum backup` and `fulcrum restore`: a campaign in one file, and back.

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_registry.h"
#include "stages/core/status_macros.h"
#include "storage/backup.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kBackupFooter[] =
    R"(Takes campaign.db as of one moment, while a daemon goes on writing, the files its log names (models, and each
round's scores and batch) and the pool. With --without-pool the pool is listed with sizes and checksums but not copied:
for large pools whose sources are kept elsewhere. The backup is one SQLite database. It is read back, its integrity
checked and its events counted, before it appears under its name; a backup that fails leaves what was there before.

Example:
  fulcrum backup campaigns/birds birds-$(date +%F).fulcrum)";

constexpr char kRestoreFooter[] =
    R"(Makes a campaign folder out of a file that fulcrum backup wrote, and checks it like fulcrum fsck before it appears.
The folder must not exist yet, or be empty. Where the backup was made without the pool, the daemon imports it again
from the campaign's sources, which must be as they were.

Example:
  fulcrum restore birds-2026-11-16.fulcrum campaigns/birds)";

struct BackupArguments {
  std::string campaign;
  std::string file;
  storage::BackupOptions options;
};

void PrintReport(const char* what, const storage::BackupReport& report) {
  std::printf("%s %lld events and %lld files (%lld bytes)\n", what, static_cast<long long>(report.events),
              static_cast<long long>(report.files), static_cast<long long>(report.file_bytes));
  if (report.not_included.empty()) return;
  std::printf("not included: %zu files of the pool, such as %s\n", report.not_included.size(),
              report.not_included.front().c_str());
}

absl::Status BackUp(const BackupArguments& arguments) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::BackupReport report,
                           storage::BackUpCampaign(arguments.campaign, arguments.file, arguments.options));
  PrintReport("backed up and verified:", report);
  return absl::OkStatus();
}

absl::Status Restore(const BackupArguments& arguments) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::BackupReport report,
                           storage::RestoreCampaign(arguments.file, arguments.campaign));
  PrintReport("restored and checked:", report);
  return absl::OkStatus();
}

CommandRun AddBackup(CLI::App& app) {
  auto arguments = std::make_shared<BackupArguments>();
  app.add_option("campaign", arguments->campaign, "Folder of the campaign")->type_name("")->required();
  app.add_option("file", arguments->file, "File to write; one that is there is replaced")->type_name("")->required();
  app.add_flag("!--without-pool", arguments->options.with_pool, "Only list the files of the pool");
  app.footer(kBackupFooter);
  return [arguments] { return BackUp(*arguments); };
}

CommandRun AddRestore(CLI::App& app) {
  auto arguments = std::make_shared<BackupArguments>();
  app.add_option("file", arguments->file, "Backup to read")->type_name("")->required();
  app.add_option("campaign", arguments->campaign, "Folder to make")->type_name("")->required();
  app.footer(kRestoreFooter);
  return [arguments] { return Restore(*arguments); };
}

}  // namespace

Command BackupCommand() {
  return {"backup", "Campaigns", "Copy a campaign, running or not, into one verified file", AddBackup};
}

Command RestoreCommand() {
  return {"restore", "Campaigns", "Make a campaign out of a backup", AddRestore};
}

}  // namespace fulcrum::pipeline
