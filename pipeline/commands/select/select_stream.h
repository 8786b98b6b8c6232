// `fulcrum select --stream`: rows from standard input, and for each at once whether to label it.
//
// The first line has the names of the columns, which are those of the pool. All lines that have arrived are decided
// together, written to the state file, if there is one, and then answered.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/commands/select/select_options.h"
#include "pipeline/round/round.h"
#include "stages/stream/budget_threshold.h"

namespace fulcrum::pipeline {

/// A share from "1%" or "0.01", labels per time from "200/h" (also /s, /m and /d).
absl::StatusOr<stream::Budget> ParseBudget(absl::string_view text);

/// Everything that can be checked without a file.
absl::Status ValidateStreamOptions(const SelectOptions& options);

/// Trains the classifier as `spec` says and answers rows until standard input ends.
absl::Status SelectFromStream(const SelectOptions& options, const SelectInputs& inputs, const RoundSpec& spec);

}  // namespace fulcrum::pipeline
