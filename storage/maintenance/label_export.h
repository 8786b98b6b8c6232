// Labels with where they come from: who, when, under which lease, in which round, at what cost.
//
// One row for every label event of the log, in order: given, changed, withdrawn or imported. Functions for one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  std::string decision = {};     ///< the item's label at the end of the log; empty where it has none
};

/// Calls `use` for every row, up to the end of the log as it was when this began.
absl::Status VisitLabels(CampaignReader& reader, const std::function<absl::Status(const ExportedLabel&)>& use);

/// "sequence,kind,item,label,...": the names of the columns, with a line end.
std::string LabelCsvHeader();
void AppendLabelCsv(const ExportedLabel& label, std::string& text);

/// The same columns, with types: times in UTC, costs as numbers.
absl::StatusOr<std::shared_ptr<arrow::Table>> LabelTable(const std::vector<ExportedLabel>& labels);

}  // namespace fulcrum::storage
