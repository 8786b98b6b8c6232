// Normalisation of features: statistics of one set of rows, applied to it and to others (a test half).
//
// METHOD section 3. `zscore`: minus the column's mean, over its sample deviation (n - 1; one below 1e-5
// counts as 1). `unit`: every row to unit length; a row of zeros stays. `tfidf`: times log((1 + rows) / (1 + rows in
// which the column is not zero)) + 1, for counts of words. `robust`: minus the column's median, over its interquartile
// range / 1.349 (the deviation of a normal distribution), clipped to [-3, 3], for columns with outliers. Quantiles are
// those of at most 4,096 rows. `onehot`: a column of 3 to 10 different whole numbers
// becomes a column per number, 1 where the row has it and 0 elsewhere, scaled to a total variance of 1; other columns
// get a z-score. It must be the first step, and has more columns than the features; so do `quantile` and `bins`
// (QuantileColumns). `bins@` and a hexadecimal digit per column of `bins` multiplies each of them by the digit / 15,
// which says how relevant it is (RelevanceOf). Sums run over fixed blocks in order, so the result is the same bit for
// bit whatever the number of threads.
//
// Unit length and tf-idf leave zeros zero; a z-score does not, so it makes sparse features dense if that fits in
// memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/pool.h"

namespace fulcrum::ingest {

// Columns that are replaced by what the quantiles of their values say, for columns that are skewed or whose borders are
// steps.
//
// `quantile`: a value becomes the normal quantile of the share of values below it, ties at the middle of their shares,
// scaled to a variance of 1; between the learned values it is interpolated. `bins`: a column becomes up to 15 columns,
// one per threshold at the sixteenths of its values (at every value if these are at most 16), 1 at and above it and 0
// below, scaled to a total variance of 1. The squared distance of two rows is then the number of thresholds between
// them, summed over the columns: a linear kernel adds up a step function per column, and an rbf kernel falls with the
// L1 distance of ranks, as the share of random trees in which two rows share a leaf does. Immutable after Fit;
// thread-safe.

class QuantileColumns {
 public:
  enum class Kind { kNormal, kBins };
  static constexpr std::size_t kMostBins = 16;

  struct Column {
    std::vector<double> values = {};  ///< ascending: where scores are known, or thresholds
    std::vector<double> scores = {};  ///< kNormal: by value
    std::vector<double> steps = {};   ///< kBins: by threshold, by how much the value of its column is above zero
  };

  /// Replaces nothing.
  QuantileColumns() = default;
  /// Learns from these rows.
  QuantileColumns(Kind kind, ConstMatrixView sample);

  bool empty() const { return columns_.empty(); }
  Kind kind() const { return kind_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// Multiplies the columns of thresholds by the digits of `relevance`, in order. InvalidArgument if there are more or
  /// fewer columns.
  absl::Status Weigh(absl::string_view relevance);
  /// The features with every column replaced, in order. They must have the columns of the sample.
  Matrix<double> Replace(ConstMatrixView features) const;

 private:
  static Column LearnNormal(const std::vector<double>& sorted);
  static Column LearnBins(const std::vector<double>& sorted);
  std::size_t WidthOf(const Column& column) const;

  Kind kind_ = Kind::kNormal;
  std::vector<Column> columns_;
};

/// How much each column says about the classes of the rows, as a hexadecimal digit per column: f for the one that says
/// most, 3 for one that says nothing. That is the share of the column's variance which lies between the classes, less
/// what it is by chance; squares of the factors are 0.05 to 1. `weights` of the rows; those of weight 0 do not count.
std::string RelevanceOf(ConstMatrixView features, std::span<const ClassIndex> classes, std::span<const double> weights);

/// The factor of a column whose relevance is this digit; -1 if it is none.
double RelevanceFactor(char digit);

/// Robust values are clipped to plus and minus this one.
inline constexpr double kLargestRobust = 3;

struct NormalizeStep {
  enum Kind { kZscore, kUnit, kTfidf, kOneHot, kRobust, kQuantile, kBins };

  NormalizeStep(Kind step) : kind(step) {}  // NOLINT(google-explicit-constructor): a step is its kind, as a rule
  friend bool operator==(const NormalizeStep& a, const NormalizeStep& b) { return a.kind == b.kind; }

  Kind kind;
  std::string relevance = {};  ///< kBins: of the columns (RelevanceOf); empty: all are the same
};

/// Some of "zscore", "unit", "tfidf", "onehot", "robust", "quantile" and "bins" in any order, joined by commas, or
/// "none". InvalidArgument for anything else, and if two of them scale columns.
absl::StatusOr<std::vector<NormalizeStep>> ParseNormalization(absl::string_view text);

/// The rows whose quantiles stand for those of a set of rows: all of them, or 4,096 evenly spaced ones.
RowList RowsForQuantiles(std::size_t rows);

/// Every row to unit length, zeros left out of it.
void ScaleRowsToUnit(SparseMatrix& features);

/// Immutable after Fit; Apply is thread-safe on different rows.
class Normalizer {
 public:
  static constexpr std::size_t kMostDenseBytes = std::size_t{8} << 30;

  /// Learns from `features` and normalises them in place, step after step. DataLoss if values are so large
  /// that the statistics overflow.
  static absl::StatusOr<Normalizer> FitInPlace(const std::vector<NormalizeStep>& steps, MutableMatrixView features);

  /// The same for either kind of features. Sparse ones stay sparse unless there is a z-score, which makes them dense;
  /// ResourceExhausted if that would need more than `max_dense_bytes`.
  static absl::StatusOr<Normalizer> FitInPlace(const std::vector<NormalizeStep>& steps, PoolFeatures& features,
                                               std::size_t max_dense_bytes = kMostDenseBytes);

  /// Learns from `features` and leaves them as they are. FailedPrecondition if a step that learns follows another one,
  /// or if a z-score would make sparse features dense.
  static absl::StatusOr<Normalizer> Fit(const std::vector<NormalizeStep>& steps, ConstMatrixView features);
  static absl::StatusOr<Normalizer> Fit(const std::vector<NormalizeStep>& steps, const SparseMatrix& features);

  /// The same from statistics that are known already, for rows that are never all in memory. FailedPrecondition if
  /// a z-score follows another step, whose rows the statistics know nothing of.
  static absl::StatusOr<Normalizer> FromStatistics(const std::vector<NormalizeStep>& steps, std::vector<double> means,
                                                   std::vector<double> deviations);

  /// Of one-hot columns: the numbers that the column has, ascending, and the factor of their columns; none for others.
  struct Categories {
    std::vector<double> values = {};
    double scale = 1;
  };

  /// Apply leaves everything as it is.
  bool changes_nothing() const { return steps_.empty(); }
  /// Whether Apply may change the number of columns, so that it cannot be done in place.
  bool adds_columns() const { return !categories_.empty() || !quantiles_.empty(); }
  /// Applies what was learned; the columns must be the same ones. Not if it adds columns.
  void Apply(MutableMatrixView features) const;
  /// The same for either kind of features; a z-score makes sparse ones dense.
  void Apply(PoolFeatures& features) const;

  const std::vector<NormalizeStep>& steps() const { return steps_; }
  const std::vector<double>& means() const { return means_; }
  const std::vector<double>& deviations() const { return deviations_; }
  const std::vector<double>& inverse_frequencies() const { return inverse_frequencies_; }
  const std::vector<Categories>& categories() const { return categories_; }
  const QuantileColumns& quantiles() const { return quantiles_; }
  /// Columns whose deviation counted as 1: they tell the rows apart no more.
  const std::vector<std::size_t>& constant_columns() const { return constant_columns_; }

 private:
  absl::Status FitZscore(ConstMatrixView features);
  absl::Status FitQuantiles(ConstMatrixView features);
  absl::Status FitCategories(ConstMatrixView features);
  absl::Status FitQuantileColumns(const NormalizeStep& step, ConstMatrixView features);
  /// The features with their columns of categories replaced.
  Matrix<double> WithCategories(ConstMatrixView features) const;
  void FitInverseFrequencies(ConstMatrixView features);
  void FitInverseFrequencies(const SparseMatrix& features);
  /// From how many of `rows` rows have a value other than zero, by column.
  void SetInverseFrequencies(std::vector<double> counts, std::size_t rows);
  /// Columns that hardly vary are left as they are.
  absl::Status SettleDeviations();
  void ApplyStep(const NormalizeStep& step, MutableMatrixView features) const;
  void ApplyStep(const NormalizeStep& step, SparseMatrix& features) const;

  std::vector<NormalizeStep> steps_;
  std::vector<double> means_;                // medians if the step is robust
  std::vector<double> deviations_;           // what values are divided by
  std::vector<double> inverse_frequencies_;  // of tf-idf, by column
  std::vector<Categories> categories_;       // by column; empty unless there is a one-hot step
  QuantileColumns quantiles_;                // of the steps quantile and bins
  std::vector<std::size_t> constant_columns_;
};

}  // namespace fulcrum::ingest
