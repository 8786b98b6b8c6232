#include "stages/select/strategy.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/select/score_order.h"

namespace fulcrum::select {

namespace {

RowList RowsWhere(std::span<const ClassIndex> labels, bool labeled) {
  RowList rows;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if ((labels[row] != kUnlabeled) == labeled) rows.push_back(static_cast<RowIndex>(row));
  }
  return rows;
}

}  // namespace

RowList UnlabeledRows(std::span<const ClassIndex> labels) {
  return RowsWhere(labels, false);
}

RowList LabeledRows(std::span<const ClassIndex> labels) {
  return RowsWhere(labels, true);
}

absl::Status CheckScores(const char* what, std::span<const RowIndex> rows, std::span<const double> scores) {
  assert(rows.size() == scores.size());
  // The smallest row, not the first position, so that the message does not depend on the order of a group's rows.
  std::size_t first = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i]) && (first == rows.size() || rows[i] < rows[first])) first = i;
  }
  if (first == rows.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the %s of row %d of the pool (counted from 0) is not a number, so rows cannot be compared by it. The features "
      "or the parameters of a kernel are too large or too small for its values; normalize the features or choose other "
      "parameters.",
      what, rows[first]));
}

absl::StatusOr<std::vector<Pick>> TopByScore(std::span<const RowIndex> rows, std::span<const double> scores,
                                             std::size_t count) {
  FULCRUM_RETURN_IF_ERROR(CheckScores("score", rows, scores));
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), middle, order.end(),
                    [&](std::size_t a, std::size_t b) { return GoesBefore(scores[a], rows[a], scores[b], rows[b]); });
  std::vector<Pick> picks;
  for (auto position = order.begin(); position != middle; ++position) {
    picks.push_back({.row = rows[*position], .gain = scores[*position]});
  }
  return picks;
}

void AnnotateClasses(const Candidates& candidates, std::span<Pick> picks) {
  if (candidates.predicted.empty()) return;
  for (Pick& pick : picks) pick.class_index = candidates.predicted[pick.row];
}

absl::StatusOr<LeverageScale> ParseLeverageScale(std::string_view name) {
  if (name == "none") return LeverageScale::kNone;
  if (name == "mean") return LeverageScale::kMean;
  if (name == "max") return LeverageScale::kMax;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no scale '", std::string(name), "'; choose none, mean or max"));
}

absl::StatusOr<Selection> SelectTopByScore(const Candidates& candidates, const std::function<double(RowIndex)>& score) {
  const RowList rows = UnlabeledRows(candidates.labels);
  std::vector<double> scores;
  scores.reserve(rows.size());
  for (const RowIndex row : rows) scores.push_back(score(row));
  Selection selection;
  FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(rows, scores, candidates.batch));
  AnnotateClasses(candidates, selection.picks);
  return selection;
}

std::vector<double> ScaledRanks(std::span<const double> values) {
  const std::size_t size = values.size();
  if (size == 1) return {0.5};
  // From the end of the order to its start: NaN has the smallest rank.
  const LargerFirst larger_first;
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return larger_first(values[b], values[a]); });
  std::vector<double> ranks(size);
  for (std::size_t first = 0, last = 0; first < size; first = last) {
    while (last < size && !larger_first(values[order[last]], values[order[first]])) ++last;
    const double mean_rank = 0.5 * static_cast<double>(first + last - 1);
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = mean_rank / static_cast<double>(size - 1);
  }
  return ranks;
}

}  // namespace fulcrum::select
