#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/state/tables.h"

namespace fulcrum::storage {

absl::Status OfferedRows::Offer(const RowsOffered& offered, std::int64_t sequence) {
  const bool possible = offered.rows > 0 && offered.taken >= 0 && offered.kept >= offered.taken &&
                        offered.kept <= offered.rows && offered.alarms >= 0;
  if (!possible) return absl::DataLossError("its numbers of rows contradict each other");
  figures_.rows += offered.rows;
  figures_.taken += offered.taken;
  figures_.alarms += offered.alarms;
  if (figures_.waiting == 0 && offered.kept > 0) figures_.first = sequence;
  figures_.waiting += offered.kept;
  figures_.last = sequence;
  if (offered.complete) figures_.complete = sequence;
  return absl::OkStatus();
}

void OfferedRows::Take(const std::string& item, bool in_round) {
  taken_.push_back(item);
  if (in_round) ++figures_.in_round;
}

absl::Status OfferedRows::Store(const OfferedRowsStored& stored) {
  if (stored.through <= figures_.stored || stored.through > figures_.last || stored.rows < 0) {
    return absl::DataLossError(absl::StrCat("rows up to event ", stored.through, " cannot be stored: those up to ",
                                            figures_.stored, " are, and the last were offered in event ",
                                            figures_.last));
  }
  figures_.stored = stored.through;
  figures_.waiting = figures_.first = 0;
  return absl::OkStatus();
}

void OfferedRows::OpenRound(const std::function<bool(const std::string& item)>& is_decided, std::int64_t carried) {
  figures_.in_round = carried;
  if (taken_.empty()) return;
  std::vector<std::string> open;
  for (const std::string& item : taken_) {
    if (!is_decided(item)) open.push_back(item);
  }
  taken_.swap(open);
  if (pruned_) return;
  open.resize(taken_before_);
  pruned_ = std::move(open);
}

void OfferedRows::Begin() {
  figures_before_ = figures_;
  taken_before_ = taken_.size();
  pruned_.reset();
}

void OfferedRows::Accept() {
  pruned_.reset();
}

void OfferedRows::RollBack() {
  figures_ = figures_before_;
  if (pruned_) taken_ = *std::exchange(pruned_, std::nullopt);
  taken_.resize(taken_before_);
}

std::string OfferedRows::ToText() const {
  JsonRows rows;
  rows.Row();
  for (const std::int64_t figure : {figures_.rows, figures_.taken, figures_.alarms, figures_.waiting, figures_.first,
                                    figures_.last, figures_.complete, figures_.stored, figures_.in_round}) {
    rows.Add(figure);
  }
  if (!taken_.empty()) rows.Row();
  for (const std::string& item : taken_) rows.Add(item);
  return rows.Take();
}

absl::StatusOr<OfferedRows> OfferedRows::FromText(const std::string& text) {
  FULCRUM_ASSIGN_OR_RETURN(auto rows, JsonRows::Parse(text));
  OfferedRows offered;
  OfferedFigures& figures = offered.figures_;
  std::int64_t* const numbers[] = {&figures.rows, &figures.taken,    &figures.alarms, &figures.waiting, &figures.first,
                                   &figures.last, &figures.complete, &figures.stored, &figures.in_round};
  bool complete = (rows.size() == 1 || rows.size() == 2) && rows[0].size() == std::size(numbers);
  for (std::size_t i = 0; complete && i < rows[0].size(); ++i) complete = absl::SimpleAtoi(rows[0][i], numbers[i]);
  if (!complete) return absl::DataLossError("what the checkpoint has of the rows of a stream is damaged");
  if (rows.size() == 2) offered.taken_ = std::move(rows[1]);
  return offered;
}

}  // namespace fulcrum::storage
