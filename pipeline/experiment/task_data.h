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

// The rows on which a run trains, is tested and starts. METHOD section 3: half and half, two labels of each class.
//
// Published splits are used if the task names files of them and these have a line for the run; everything else is
// drawn from the seed, the task's name and the run's number alone. Immutable after loading, thread-safe.

/// Rows of the task's data.
struct Split {
  RowList train = {};
  RowList test = {};
  RowList start = {};  ///< of train
  bool given_halves = false;
  bool given_start = false;
};

class RunSplits {
 public:
  /// DataLoss if an existing file cannot be used. `data` must outlive it.
  static absl::StatusOr<RunSplits> Load(const ExperimentSpec& spec, const TaskSettings& task, const TaskData& data,
                                        const std::string& data_folder);

  /// FailedPrecondition if the training half lacks examples of a class to start from.
  absl::StatusOr<Split> Make(std::size_t run) const;

  std::size_t given_halves() const { return halves_.size(); }
  std::size_t given_starts() const { return starts_.size(); }

 private:
  RunSplits(const ExperimentSpec& spec, const TaskSettings& task, const TaskData& data);
  RowList DrawUniverse(std::uint64_t seed) const;
  absl::Status CheckStart(std::size_t run, const Split& split) const;
  absl::StatusOr<RowList> DrawStart(std::uint64_t seed, const RowList& train) const;

  std::uint64_t seed_;
  std::size_t start_per_class_;
  const TaskSettings* task_;
  const TaskData* data_;
  std::vector<RowList> halves_;
  std::vector<RowList> starts_;
};

}  // namespace fulcrum::pipeline
