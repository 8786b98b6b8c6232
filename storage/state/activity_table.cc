#include "storage/state/activity_table.h"

#include "absl/strings/numbers.h"
#include "stages/core/number_text.h"
#include "storage/checkpoint/checkpoint.h"

namespace fulcrum::storage {

AnnotatorActivity& AnnotatorActivity::operator+=(const AnnotatorActivity& more) {
  answers += more.answers;
  skips += more.skips;
  expired += more.expired;
  cost += more.cost;
  return *this;
}

AnnotatorActivity ActivityTable::Of(absl::string_view annotator) const {
  const auto found = activities_.find(std::string(annotator));
  return found == activities_.end() ? AnnotatorActivity() : found->second;
}

void ActivityTable::Add(const std::string& annotator, const AnnotatorActivity& more) {
  const auto [place, is_new] = activities_.try_emplace(annotator);
  if (keeps_) before_.emplace_back(annotator, is_new ? std::nullopt : std::optional(place->second));
  place->second += more;
  total_ += more;
}

void ActivityTable::Begin() {
  keeps_ = true;
  before_.clear();
  total_before_ = total_;
}

void ActivityTable::Accept() {
  keeps_ = false;
  before_.clear();
}

void ActivityTable::RollBack() {
  for (auto kept = before_.rbegin(); kept != before_.rend(); ++kept) {
    if (kept->second) {
      activities_[kept->first] = *kept->second;
    } else {
      activities_.erase(kept->first);
    }
  }
  total_ = total_before_;
  Accept();
}

std::string ActivityTable::ToText() const {
  JsonRows rows;
  for (const auto& [name, activity] : activities_) {
    rows.Row().Add(name).Add(activity.answers).Add(activity.skips).Add(activity.expired).Add(activity.cost);
  }
  return rows.Take();
}

absl::StatusOr<ActivityTable> ActivityTable::FromRows(const std::vector<std::vector<std::string>>& rows) {
  ActivityTable table;
  for (const std::vector<std::string>& cells : rows) {
    AnnotatorActivity activity;
    const auto cost = cells.size() == 5 ? ParseNumber(cells[4]) : std::nullopt;
    if (!cost || !absl::SimpleAtoi(cells[1], &activity.answers) || !absl::SimpleAtoi(cells[2], &activity.skips) ||
        !absl::SimpleAtoi(cells[3], &activity.expired)) {
      return absl::DataLossError("what the annotators have done is damaged in the checkpoint");
    }
    activity.cost = *cost;
    table.activities_[cells[0]] = activity;
    table.total_ += activity;
  }
  return table;
}

}  // namespace fulcrum::storage
