#include "stages/select/similarity_memory.h"

#include <utility>

#include "stages/core/row_changes.h"
#include "stages/core/status_macros.h"
#include "stages/select/similarity_sums.h"

namespace fulcrum::select {
namespace {

absl::StatusOr<std::vector<double>> SumsAfresh(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                               std::span<const RowIndex> rows, std::span<const RowIndex> given) {
  SimilaritySums sums(kernel, features, rows);
  FULCRUM_RETURN_IF_ERROR(sums.Add(given));
  return sums.Release();
}

/// What separates sums known before from those wanted.
struct Difference {
  RowList added, gone;
  /// How many similarities have to be looked at, with so many candidates that entered.
  double Work(std::size_t rows, std::size_t entered, std::size_t known) const {
    return static_cast<double>(entered) * static_cast<double>(known) +
           static_cast<double>(rows) * static_cast<double>(added.size() + gone.size());
  }
};

Difference Between(std::span<const RowIndex> given, std::span<const RowIndex> known) {
  return {.added = RowsOnlyIn(given, known), .gone = RowsOnlyIn(known, given)};
}

}  // namespace

absl::StatusOr<std::vector<double>> SimilarityMemory::Recall(const kernel::KernelFunction& kernel,
                                                             const kernel::Features& features,
                                                             std::span<const RowIndex> rows,
                                                             std::span<const RowIndex> given) {
  const RowList entered = RowsOnlyIn(rows, rows_);
  double least_work = static_cast<double>(rows.size()) * static_cast<double>(given.size());
  const GivenSums* known = nullptr;
  Difference difference;
  for (const GivenSums* sums : {&labeled_, &with_picks_}) {
    Difference other = Between(given, sums->given);
    const double work = other.Work(rows.size(), entered.size(), sums->given.size());
    if (!(work < least_work)) continue;
    least_work = work;
    known = sums;
    difference = std::move(other);
  }
  carried_ = known ? given.size() - difference.added.size() : 0;
  if (!known) return SumsAfresh(kernel, features, rows, given);
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> of_entered, SumsAfresh(kernel, features, entered, known->given));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> to_gone, SumsAfresh(kernel, features, rows, difference.gone));
  std::vector<double> sums = CarryValues(rows, rows_, known->sums, of_entered);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] -= to_gone[i];
  SimilaritySums with_added(kernel, features, rows);
  with_added.GoOnFrom(std::move(sums));
  FULCRUM_RETURN_IF_ERROR(with_added.Add(difference.added));
  return with_added.Release();
}

void SimilarityMemory::Remember(std::span<const RowIndex> rows, GivenSums labeled, GivenSums with_picks) {
  rows_.assign(rows.begin(), rows.end());
  labeled_ = std::move(labeled);
  with_picks_ = std::move(with_picks);
}

}  // namespace fulcrum::select
