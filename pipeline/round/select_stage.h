// Select: asks the strategy for the batch, from everything that the stages before it produced.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/round/round_messages.h"

namespace fulcrum::pipeline {

/// The round's result, without its times. No picks if the round was asked for predictions only.
absl::StatusOr<RoundResult> SelectBatch(const RoundRequest& request, const ScoredPool& scored);

/// Takes excluded rows out of the picks, and what was picked in excess because of them.
void DropBarred(const RoundRequest& request, std::vector<select::Pick>& picks);

}  // namespace fulcrum::pipeline
