// A batch that is diverse within itself and against the labeled, chosen class by class with one score a row:
// what DBALEVS does with leverage scores. METHOD section 1.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

/// Divides the batch among candidates.groups and maximises F in each, with scores scaled as the candidates say. Picks
/// come largest gain first, which keeps each class's own order. The certificate holds for all batches with the same
/// share a class. Rejects alpha outside [0, 1] and kernels with values outside [0, 1], for which F would not be
/// monotone.
absl::StatusOr<Selection> SelectDiverseBatch(const Candidates& candidates);

}  // namespace fulcrum::select
