// The files that `fulcrum select` reads, brought together and checked against each other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/commands/select_options.h"
#include "pipeline/commands/stage_clock.h"
#include "pipeline/progress.h"
#include "stages/core/rows.h"
#include "stages/ingest/class_names.h"
#include "stages/ingest/row_ids.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

struct SelectInputs {
  ingest::RowIds ids;
  std::unique_ptr<kernel::Features> features;  ///< normalised; dense or sparse
  ingest::ClassNames classes;
  std::vector<ClassIndex> labels;                      ///< by row
  std::optional<std::vector<ClassIndex>> predictions;  ///< by row; a labeled row has its label
  std::size_t labeled = 0;
  std::vector<std::string> notes;  ///< what the user should know about the data

  std::size_t unlabeled() const { return labels.size() - labeled; }
};

/// OutOfRange where every row is labeled, FailedPrecondition where the labels are too few for the strategy.
absl::StatusOr<SelectInputs> LoadSelectInputs(const SelectOptions& options, Progress& progress, StageClock& clock);

}  // namespace fulcrum::pipeline
