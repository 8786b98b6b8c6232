// A batch that is diverse within itself and compared to the labeled examples, selected per class with one score per
// row, as DBALEVS does with leverage scores. METHOD section 1.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

/// Divides the batch among candidates.groups and maximises F in each, with scores scaled as set in the candidates.
/// Picks are ordered by decreasing gain, which keeps the order within each class. The certificate holds for all batches
/// with the same share per class. Returns an error if alpha is outside [0, 1] or a kernel has values outside [0, 1],
/// because F would not be monotone.
absl::StatusOr<Selection> SelectDiverseBatch(const Candidates& candidates);

}  // namespace fulcrum::select
