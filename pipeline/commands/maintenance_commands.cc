#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/table.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::pipeline {

// `fulcrum backup` and `fulcrum restore`: a campaign in one file, and back.

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
  app.add_option("file", arguments->file, "File to write; an existing file is overwritten")->type_name("")->required();
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

// `fulcrum export`: labels with where they come from.

namespace {

constexpr char kExportFooter[] =
    R"(One row for every label that was given, changed, withdrawn or imported, in the order of the log:
  sequence     number of the event in the log; a model's sequence number refers to these
  kind         label, change, withdrawal, import, or resolution (an administrator decided)
  id, label    what was labeled, and as what
  annotator    who said so; of an imported label, where it comes from
  time         when, in UTC
  lease_id, epoch, slot, round   under which lease; 0 if there was none
  cost         what it cost
  late         it came after its lease had expired; it counts anyway
  request_id   under which it was sent
  counts       it is what this annotator says today
  item_state   what became of the item: labeled, disputed, set aside, offered, in pool
  decision     the item's label today; empty if there is none
  agreement    share of the item's votes that are for the most frequent class; empty without votes
  confidence   probability that the item's label is right, by its votes; 1 for a known answer, empty without a label
  annotator_accuracy   estimated accuracy of the annotator; empty before the first estimate, and with majority voting

The format is that of the file's name: .csv, .csv.gz or .parquet; - is CSV on standard output. Works while a daemon
runs, and sees what was committed when it started.

Example:
  fulcrum export campaigns/birds --out labels.parquet)";

struct FolderExportOptions {
  std::string campaign;
  std::string out;
};

constexpr std::size_t kTextBytes = 1 << 20;
constexpr std::size_t kLabelsPerGroup = 65'536;

absl::Status WriteCsv(const std::string& out, const std::function<absl::Status(const UseLabel&)>& visit) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> sink, OpenTextSink(out));
  std::string text = storage::LabelCsvHeader();
  FULCRUM_RETURN_IF_ERROR(visit([&](const storage::ExportedLabel& label) -> absl::Status {
    storage::AppendLabelCsv(label, text);
    if (text.size() < kTextBytes) return absl::OkStatus();
    return sink->Write(std::exchange(text, {}));
  }));
  FULCRUM_RETURN_IF_ERROR(sink->Write(text));
  FULCRUM_RETURN_IF_ERROR(sink->Finish());
  return sink->Commit();
}

/// In groups of rows, so that any number of labels takes the memory of one group.
absl::Status WriteParquet(const std::string& out, const std::function<absl::Status(const UseLabel&)>& visit) {
  FULCRUM_ASSIGN_OR_RETURN(const auto file, ingest::TableFile::Create(out));
  std::unique_ptr<ingest::TableWriter> writer;
  std::vector<storage::ExportedLabel> labels;
  const auto write_group = [&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto table, storage::LabelTable(labels));
    labels.clear();
    if (writer == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(writer,
                               ingest::MakeTableWriter(ingest::TableFormat::kParquet, table->schema(), file->stream()));
    }
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, ingest::FromArrow(table->CombineChunksToBatch(), "cannot write labels"));
    return writer->Write(*batch);
  };
  FULCRUM_RETURN_IF_ERROR(visit([&](const storage::ExportedLabel& label) {
    labels.push_back(label);
    return labels.size() < kLabelsPerGroup ? absl::OkStatus() : write_group();
  }));
  FULCRUM_RETURN_IF_ERROR(write_group());
  FULCRUM_RETURN_IF_ERROR(writer->Finish());
  return file->Commit();
}

absl::Status ExportFolder(const FolderExportOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(options.campaign));
  return WriteLabels(options.out, [&](const UseLabel& use) { return storage::VisitLabels(*reader, use); });
}

CommandRun AddExport(CLI::App& app) {
  auto options = std::make_shared<FolderExportOptions>();
  app.add_option("campaign", options->campaign, "Folder of the campaign")->type_name("")->required();
  app.add_option("--out", options->out, "File to write: .csv, .csv.gz or .parquet; - is standard output")
      ->type_name("FILE")
      ->required();
  app.footer(kExportFooter);
  return [options] { return ExportFolder(*options); };
}

}  // namespace

absl::Status WriteLabels(const std::string& out, const std::function<absl::Status(const UseLabel&)>& visit) {
  return absl::EndsWithIgnoreCase(out, ".parquet") ? WriteParquet(out, visit) : WriteCsv(out, visit);
}

Command ExportCommand() {
  return {"export", "Campaigns", "Write a campaign's labels with who, when, lease, round and cost", AddExport};
}

// `fulcrum fsck`: checks a campaign from the disk up, and rebuilds what is derived from its log.

namespace {

constexpr char kFsckFooter[] =
    R"(Checks, in this order: the pages of campaign.db; that its log is protected against changes; every event of the log,
by its checksum and by replaying it (epochs grow, no slot is leased twice, no request takes effect twice); the tables of
items, slots, leases and rounds, which are derived from the log; that no other file (models, rounds, campaign.high-water)
knows of events that the log does not have; the files of rounds and models; every pool, with its manifest, its
statistics and the checksum of every block. Works while a daemon runs.

Checking never changes anything in the campaign's folder. If no daemon runs, it reads a copy of campaign.db in the folder
for temporary files ($TMPDIR).

--rebuild first writes the derived tables again from the log, and upgrades an older schema. It works on a copy of
campaign.db, which replaces the original at the end. Stop the daemon before. The log itself is never changed: if it is
damaged, restore a backup.

Exit code 0 if there is no problem, 65 otherwise; every problem is a line on standard output.

Example:
  fulcrum fsck campaigns/birds)";

struct FsckOptions {
  std::string campaign;
  bool rebuild = false;
};

absl::Status Fsck(const FsckOptions& options) {
  if (options.rebuild) FULCRUM_RETURN_IF_ERROR(storage::RebuildCampaign(options.campaign));
  FULCRUM_ASSIGN_OR_RETURN(const storage::FsckReport report, storage::CheckCampaign(options.campaign));
  std::printf("%lld events, %lld labels, %lld items, %lld rounds, %lld models; derived tables up to event %lld%s\n",
              static_cast<long long>(report.events), static_cast<long long>(report.labels),
              static_cast<long long>(report.items), static_cast<long long>(report.rounds),
              static_cast<long long>(report.models), static_cast<long long>(report.tables_through),
              options.rebuild ? ", rebuilt" : "");
  for (const std::string& note : report.notes) std::printf("note: %s\n", note.c_str());
  for (const std::string& problem : report.problems) std::printf("problem: %s\n", problem.c_str());
  if (report.problems.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("campaign '", options.campaign, "' has ", report.problems.size(),
                                          " problem(s), listed above; if only derived tables differ, --rebuild ",
                                          "fixes them, otherwise restore a backup"));
}

CommandRun AddFsck(CLI::App& app) {
  auto options = std::make_shared<FsckOptions>();
  app.add_option("campaign", options->campaign, "Folder of the campaign")->type_name("")->required();
  app.add_flag("--rebuild", options->rebuild, "Write the derived tables again from the log");
  app.footer(kFsckFooter);
  return [options] { return Fsck(*options); };
}

}  // namespace

Command FsckCommand() {
  return {"fsck", "Campaigns", "Check a campaign, and rebuild what is derived from its log", AddFsck};
}

}  // namespace fulcrum::pipeline
