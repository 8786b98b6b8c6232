// What is done to whole campaigns: check, rebuild, back up, restore, export and report. Functions for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/consensus/consensus.h"
#include "storage/campaign_folder.h"
#include "storage/campaign_reader.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_state.h"

namespace arrow {
class Table;
}  // namespace arrow

namespace fulcrum::storage {

// Checks a campaign from the disk up, and rebuilds what is derived from its log.
//
// Checking changes nothing in the folder of the campaign and reads one snapshot, also while another process writes to
// it; rebuilding needs exclusive access. Functions for one thread.

struct FsckReport {
  std::int64_t events = 0;
  std::int64_t labels = 0;
  std::int64_t items = 0;
  std::int64_t rounds = 0;
  std::int64_t models = 0;
  std::int64_t tables_through = 0;         ///< the last event that the derived tables include
  std::vector<std::string> problems = {};  ///< empty: all is well
  std::vector<std::string> notes = {};     ///< what is unusual, but no damage
};

/// Checks: the database's pages; the schema and the triggers that protect the log; every event, by its checksum and by
/// replaying it; whether other files know of events that the log does not have; the derived tables, against the replay;
/// the files of rounds and models; every pool. An error is something that prevents the check. Copies the database to
/// the folder for temporary files, unless another process writes to the campaign.
absl::StatusOr<FsckReport> CheckCampaign(const std::string& folder);

/// Upgrades the schema and writes the derived tables again from the log, in a copy that replaces the database at the
/// end: after an error the campaign is as it was. Unavailable if the campaign is open.
absl::Status RebuildCampaign(const std::string& folder);

// A copy of a campaign's database that may be opened and written to without touching the original.
//
// SQLite changes files even when it only reads them: it may create, recover or delete a write-ahead log. Tools that
// must not change a campaign work on a copy of both files. An empty database with a write-ahead log next to it is made
// readable in the copy, since the log may hold every page. A plain value for one thread.

class DatabaseCopy {
 public:
  /// Copies the database and its write-ahead log, if there is one, to `path`. The caller makes sure that no process
  /// writes to the campaign. The copy is removed with the object, except for what was renamed by then.
  static absl::StatusOr<DatabaseCopy> Make(const CampaignFolder& folder, const std::string& path);
  /// The same in a new folder for temporary files.
  static absl::StatusOr<DatabaseCopy> MakeTemporary(const CampaignFolder& folder);

  DatabaseCopy(DatabaseCopy&& other) noexcept;
  DatabaseCopy& operator=(DatabaseCopy&&) = delete;
  ~DatabaseCopy();

  const std::string& path() const { return path_; }

 private:
  explicit DatabaseCopy(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::string temporary_folder_;  ///< empty unless there is one to be removed
};

// Compares the derived tables, which are the checkpoint of a campaign, with its log.
//
// A function for one thread.

/// What differs between a checkpoint that was loaded and the state at its position, derived from the log: one line per
/// row, at most `most`.
std::vector<std::string> FindDifferences(Checkpoint& checkpoint, const CampaignState& state, std::size_t most = 10);

// A campaign in one file, and back.
//
// A backup is an SQLite database: a snapshot of campaign.db, taken while it is being written, and in further tables the
// files that the log names (models, scores and batches of rounds, appended rows) and the pool, split into pieces. A
// pool whose sources are kept elsewhere may be left out; then it is only listed by name, size and checksum. A backup
// appears complete or not at all, after it was read back and checked. Functions for one thread; neither needs the lock
// of the campaign.

struct BackupOptions {
  bool with_pool = true;  ///< what was imported when the campaign was made; appended rows are always in it
};

struct BackupReport {
  std::int64_t events = 0;  ///< in the log
  std::int64_t files = 0;   ///< included besides the database
  std::int64_t file_bytes = 0;
  std::vector<std::string> not_included = {};  ///< files of the pool that the backup only lists
};

/// Replaces `file` if it exists. DataLoss if the campaign or the copy is damaged.
absl::StatusOr<BackupReport> BackUpCampaign(const std::string& folder, const std::string& file,
                                            const BackupOptions& options = {});

/// Restores a campaign from a backup and checks it. AlreadyExists if the folder exists and is not empty; nothing is
/// left where it fails.
absl::StatusOr<BackupReport> RestoreCampaign(const std::string& file, const std::string& folder);

// The files inside a backup: two tables, one that lists them and one that holds their pieces.
//
// Belongs to one connection, used by one thread.

struct BackupEntry {
  std::string path = {};  ///< relative to the campaign's folder
  std::int64_t bytes = 0;
  std::string checksum = {};
  bool included = false;
};

absl::Status CreateBackupTables(SqliteDatabase& backup);
absl::Status DropBackupTables(SqliteDatabase& backup);

/// Lists a file of the campaign, and copies it into the backup where `include` says so.
absl::StatusOr<BackupEntry> AddToBackup(SqliteDatabase& backup, const CampaignFolder& folder, const std::string& path,
                                        bool include);
/// FailedPrecondition if the database is not a backup.
absl::StatusOr<std::vector<BackupEntry>> ListBackup(SqliteDatabase& backup);
/// Reads a file's pieces; DataLoss if they are not what the list says.
absl::Status CheckBackupFile(SqliteDatabase& backup, const BackupEntry& entry);
/// Writes a file out of the backup into the folder. InvalidArgument for a path that leads out of it.
absl::Status ExtractBackupFile(SqliteDatabase& backup, const BackupEntry& entry, const CampaignFolder& folder);

// Labels with where they come from: who, when, under which lease, in which round, at what cost.
//
// One row for every label event of the log, in order: given, changed, withdrawn or imported. `fulcrum export` and
// `fulcrum campaign export` write the same columns. For one thread.

struct ExportedLabel {
  EventRow event = {};           ///< what happened, by whom, when, and under which lease and round
  bool late = false;             ///< it came after its lease had ended
  bool counts = false;           ///< it is what its annotator says at the end of the log
  std::string item_status = {};  ///< of the item at the end of the log
  std::string decision = {};     ///< the item's label at the end of the log; empty if it has none
  /// Share of the item's votes that are for the most frequent class; nothing without votes.
  std::optional<double> agreement = {};
  /// Probability that the item's label is right, by its votes; 1 for a known answer, nothing without a label.
  std::optional<double> confidence = {};
  /// Estimated accuracy of the annotator; nothing before the first estimate, and if votes decide by majority.
  std::optional<double> annotator_accuracy = {};
  /// The class that the item should perhaps have instead, if its label is a likely error; otherwise empty.
  std::string suggested = {};
};

/// "label", "change", "withdrawal", "import" or "resolution"; null for an event that is not about a label.
const char* LabelKindName(EventKind kind);
/// The reverse of it.
absl::StatusOr<EventKind> ParseLabelKind(absl::string_view name);

/// Share of the votes that are for the most frequent class; nothing without votes.
std::optional<double> AgreementOf(const Item& item);

/// Suggested classes by item.
using LikelyErrors = absl::flat_hash_map<std::string, std::string>;
/// Likely errors among the labels by votes, by confident learning on what the classifier said of them that did not see
/// them (`labeling.classifier_weight`); none without it.
LikelyErrors FindLikelyErrors(const CampaignState& state);

/// Reads the rows a page at a time, up to the end of the log as it was when the first page was read.
class LabelPager {
 public:
  /// The reader must outlive it.
  /// `errors`: those that a classifier has found by now; without them FindLikelyErrors.
  explicit LabelPager(CampaignReader& reader, std::optional<LikelyErrors> errors = std::nullopt)
      : reader_(reader), errors_(std::move(errors)) {}
  /// The next rows, at most so many; none at the end.
  absl::StatusOr<std::vector<ExportedLabel>> Next(std::size_t most);

 private:
  using LastImports = absl::flat_hash_map<std::string, std::int64_t>;
  absl::Status Begin();
  ExportedLabel Describe(EventRow event) const;

  CampaignReader& reader_;
  std::optional<LikelyErrors> errors_;
  LastImports imports_;    // sequence of the last import or decision by item
  std::int64_t next_ = 0;  // sequence; 0 before the first page
  std::int64_t last_ = 0;
};

/// Calls `use` for every row, up to the end of the log as it was when this began.
absl::Status VisitLabels(CampaignReader& reader, const std::function<absl::Status(const ExportedLabel&)>& use);

/// "sequence,kind,id,label,...": the names of the columns, with a line end.
std::string LabelCsvHeader();
void AppendLabelCsv(const ExportedLabel& label, std::string& text);

/// The same columns, with types: times in UTC, costs as numbers.
absl::StatusOr<std::shared_ptr<arrow::Table>> LabelTable(const std::vector<ExportedLabel>& labels);

// What is known about the annotators of a campaign: how good, how fast, how willing they are, and how much they agree.
//
// Derived from the whole log when it is asked for. For one thread.

struct AnnotatorSummary {
  std::string name = {};
  consensus::AnnotatorQuality quality = {};
  std::int64_t labels = 0;  ///< submitted, also those that were changed or withdrawn later
  std::int64_t skips = 0;
  std::int64_t expired_leases = 0;
  double cost = 0;
  std::optional<double> answer_seconds = {};  ///< median; from the lease, or the answer before if that is later
  std::optional<double> kappa = {};           ///< mean of Cohen's kappa with others, by shared items
  std::optional<Time> last_seen = {};
  std::string paused = {};  ///< why it gets no tasks; empty: it does

  /// Of the tasks that ended with this annotator.
  double SkipRate() const {
    const double total = static_cast<double>(labels + skips);
    return total > 0 ? static_cast<double>(skips) / total : 0;
  }
};

struct AnnotatorReport {
  std::vector<AnnotatorSummary> annotators = {};  ///< by name
  std::vector<std::string> classes = {};          ///< of the confusion matrices
  std::optional<double> cohen_kappa = {};
  std::optional<double> fleiss_kappa = {};
  std::optional<double> krippendorff_alpha = {};
  std::int64_t votes = 0;  ///< that count
  std::int64_t items = 0;  ///< with votes
};

/// At the end of the log. `classes` are the campaign's.
absl::StatusOr<AnnotatorReport> ReportAnnotators(CampaignReader& reader, const std::vector<std::string>& classes);

}  // namespace fulcrum::storage
