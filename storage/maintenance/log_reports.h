// Labels with where they come from: who, when, under which lease, in which round, at what cost.
//
// One row for every label event of the log, in order: given, changed, withdrawn or imported. `fulcrum export` and
// `fulcrum campaign export` write the same columns. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/consensus/annotator_quality.h"
#include "storage/campaign_reader.h"
#include "storage/log/event_log.h"

namespace arrow {
class Table;
}  // namespace arrow

namespace fulcrum::storage {

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
};

/// "label", "change", "withdrawal", "import" or "resolution"; null for an event that is not about a label.
const char* LabelKindName(EventKind kind);
/// The reverse of it.
absl::StatusOr<EventKind> ParseLabelKind(absl::string_view name);

/// Share of the votes that are for the most frequent class; nothing without votes.
std::optional<double> AgreementOf(const Item& item);

/// Reads the rows a page at a time, up to the end of the log as it was when the first page was read.
class LabelPager {
 public:
  /// The reader must outlive it.
  explicit LabelPager(CampaignReader& reader) : reader_(reader) {}
  /// The next rows, at most so many; none at the end.
  absl::StatusOr<std::vector<ExportedLabel>> Next(std::size_t most);

 private:
  using LastImports = absl::flat_hash_map<std::string, std::int64_t>;
  absl::Status Begin();
  ExportedLabel Describe(EventRow event) const;

  CampaignReader& reader_;
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
