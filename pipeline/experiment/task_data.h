// The data set of one task: features and the labels that an annotator would give. Immutable after loading, thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/round/tuning.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/kernel/features.h"

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

// The data of one run, ready for learning: both halves normalised with the training half's statistics, and the inner
// products that all strategies of the run share. If the classifier is tuned, the halves are normalised in each way that
// a strategy asks for, once. Thread-safe.

class RunData final : public FeatureSource {
 public:
  /// Larger tables of inner products are not stored; products are then computed each time.
  static constexpr std::size_t kMostTableBytes = std::size_t{2} << 30;

  /// Normalised in this way; empty: in each way that is asked for later, as for a tuned classifier.
  static absl::StatusOr<RunData> Make(const TaskData& data, const Split& split,
                                      const std::string& normalize = "zscore,unit",
                                      std::size_t most_table_bytes = kMostTableBytes);

  /// Tuned strategies find so many ways to normalise the data ready.
  static constexpr std::size_t kVariantsKept = 2;

  /// The approximate memory of a run of this size, for any strategy.
  static std::size_t EstimateBytes(const TaskData& data, const Split& split, bool tuned = false);

  /// The training half (row i is row split.train[i] of the data), and both halves. `normalize` matters only for data
  /// that can be normalised in several ways; other data was normalised by Make.
  absl::StatusOr<PreparedFeatures> Fixed(const std::string& normalize) const {
    if (features_.pool != nullptr) return features_;
    return Prepare(normalize);
  }

  std::size_t rows() const override { return answers_.size(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

  std::size_t class_count() const { return class_count_; }
  ClassIndex positive() const { return positive_; }
  /// The answers, by row of the pool.
  std::span<const ClassIndex> answers() const { return answers_; }
  std::span<const ClassIndex> test_labels() const { return test_labels_; }
  /// Rows of the pool that are labeled at the start.
  const RowList& start() const { return start_; }

 private:
  RunData() = default;

  /// What tuned strategies asked for last. What others still use lives as long as they do.
  struct Variants {
    std::mutex mutex;
    std::list<std::pair<std::string, PreparedFeatures>> last_used;  // guarded by mutex; the last one first
  };

  PreparedFeatures features_;  // empty if it can be normalised in several ways
  std::size_t most_table_bytes_ = kMostTableBytes;
  Matrix<double> raw_;  // the training half, then the test half; empty if it was normalised
  std::unique_ptr<Variants> variants_ = std::make_unique<Variants>();
  std::size_t class_count_ = 0;
  ClassIndex positive_ = 0;
  std::vector<ClassIndex> answers_;
  std::vector<ClassIndex> test_labels_;
  RowList start_;
};

}  // namespace fulcrum::pipeline
