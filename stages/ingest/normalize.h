// Normalisation of features: statistics of one set of rows, applied to it and to others (a test half).
//
// METHOD section 3. `zscore`: minus the column's mean, over its sample deviation (n - 1; one below 1e-5
// counts as 1). `unit`: every row to unit length; a row of zeros stays. Sums run over fixed blocks in order,
// so the result is the same bit for bit whatever the number of threads.
//
// Unit length leaves zeros zero; a z-score does not, so it makes sparse features dense. That is what the method asks
// for, and done where it fits in memory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/matrix.h"
#include "stages/ingest/pool.h"

namespace fulcrum::ingest {

enum class NormalizeStep { kZscore, kUnit };

/// "zscore,unit" in any order, or "none". InvalidArgument for anything else.
absl::StatusOr<std::vector<NormalizeStep>> ParseNormalization(absl::string_view text);

/// Every row to unit length, zeros left out of it.
void ScaleRowsToUnit(SparseMatrix& features);

/// Immutable after Fit; Apply is thread-safe on different rows.
class Normalizer {
 public:
  static constexpr std::size_t kMostDenseBytes = std::size_t{8} << 30;

  /// Learns from `features` and normalises them in place, step after step. DataLoss where values are so large
  /// that the statistics overflow.
  static absl::StatusOr<Normalizer> FitInPlace(const std::vector<NormalizeStep>& steps, MutableMatrixView features);

  /// The same for either kind of features. Sparse ones stay sparse unless there is a z-score, which makes them dense;
  /// ResourceExhausted where that would need more than `max_dense_bytes`.
  static absl::StatusOr<Normalizer> FitInPlace(const std::vector<NormalizeStep>& steps, PoolFeatures& features,
                                               std::size_t max_dense_bytes = kMostDenseBytes);

  /// The same from statistics that are known already, for rows that are never all in memory. FailedPrecondition where
  /// a z-score follows another step, whose rows the statistics know nothing of.
  static absl::StatusOr<Normalizer> FromStatistics(const std::vector<NormalizeStep>& steps, std::vector<double> means,
                                                   std::vector<double> deviations);

  /// Apply leaves everything as it is.
  bool changes_nothing() const { return steps_.empty(); }
  /// Applies what was learned; the columns must be the same ones.
  void Apply(MutableMatrixView features) const;

  const std::vector<double>& means() const { return means_; }
  const std::vector<double>& deviations() const { return deviations_; }
  /// Columns whose deviation counted as 1: they tell the rows apart no more.
  const std::vector<std::size_t>& constant_columns() const { return constant_columns_; }

 private:
  absl::Status FitZscore(ConstMatrixView features);
  /// Columns that hardly vary are left as they are.
  absl::Status SettleDeviations();
  void ApplyStep(NormalizeStep step, MutableMatrixView features) const;

  std::vector<NormalizeStep> steps_;
  std::vector<double> means_;
  std::vector<double> deviations_;
  std::vector<std::size_t> constant_columns_;
};

}  // namespace fulcrum::ingest
