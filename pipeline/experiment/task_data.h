// The data set of one task: features and the labels that an annotator would give. Immutable after loading, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/experiment_spec.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {

struct TaskData {
  Matrix<double> features = {};  ///< not normalised
  std::vector<ClassIndex> labels = {};
  std::vector<std::string> class_names = {};
  ClassIndex positive = 0;     ///< index of the task's positive class
  std::uint64_t checksum = 0;  ///< of features and labels, to recognise results of other data
};

/// Reads or generates the task's data. NotFound if its file is absent; DataLoss if it cannot be used; ResourceExhausted
/// if it does not fit `limits`.
absl::StatusOr<TaskData> LoadTaskData(const TaskSettings& task, const std::string& data_folder,
                                      const ingest::InputLimits& limits = {});

}  // namespace fulcrum::pipeline
