#include "stages/ingest/normalize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kRowsPerBlock = 512;
constexpr double kSmallestDeviation = 1e-5;

// Sums term(column, value) down every column, block by block, the blocks in order.
template <typename Term>
std::vector<double> ColumnSums(ConstMatrixView features, const Term& term) {
  const std::size_t blocks = (features.rows() + kRowsPerBlock - 1) / kRowsPerBlock;
  Matrix<double> partial = Matrix<double>::Zero(blocks, features.cols());
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    const std::span<double> sums = partial.row(first / kRowsPerBlock);
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<const double> values = features.row(row);
      for (std::size_t col = 0; col < values.size(); ++col) sums[col] += term(col, values[col]);
    }
  });
  std::vector<double> sums(features.cols(), 0.0);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t col = 0; col < sums.size(); ++col) sums[col] += partial(block, col);
  }
  return sums;
}

double LengthOf(std::span<const double> row) {
  double squares = 0;
  for (double value : row) squares += value * value;
  if (std::isnormal(squares)) return std::sqrt(squares);
  // Squares of very large or very small values leave the range of a double; those of the quotients do not.
  double largest = 0;
  for (double value : row) largest = std::max(largest, std::abs(value));
  if (largest == 0) return 0;
  squares = 0;
  for (double value : row) squares += (value / largest) * (value / largest);
  return largest * std::sqrt(squares);
}

void ScaleToUnit(std::span<double> row) {
  const double length = LengthOf(row);
  if (length == 0) return;
  if (std::isfinite(length)) {
    for (double& value : row) value /= length;
    return;
  }
  // The length itself overflows; that of the row scaled down does not.
  for (double& value : row) value /= 0x1p512;
  ScaleToUnit(row);
}

}  // namespace

absl::StatusOr<std::vector<NormalizeStep>> ParseNormalization(absl::string_view text) {
  std::vector<NormalizeStep> steps;
  if (absl::StripAsciiWhitespace(text) == "none") return steps;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(part);
    if (name != "zscore" && name != "unit") {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown normalisation '", name, "'; it must be none, zscore, unit, or both joined by a comma"));
    }
    const NormalizeStep step = name == "zscore" ? NormalizeStep::kZscore : NormalizeStep::kUnit;
    if (std::find(steps.begin(), steps.end(), step) != steps.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the normalisation '", name, "' is named twice"));
    }
    steps.push_back(step);
  }
  return steps;
}

void ScaleRowsToUnit(SparseMatrix& features) {
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) ScaleToUnit(features.ValuesOf(row));
  });
}

absl::StatusOr<Normalizer> Normalizer::FitInPlace(const std::vector<NormalizeStep>& steps, PoolFeatures& features,
                                                  std::size_t max_dense_bytes) {
  if (!features.is_sparse()) return FitInPlace(steps, features.dense().view());
  Normalizer normalizer;
  normalizer.steps_ = steps;
  if (std::find(steps.begin(), steps.end(), NormalizeStep::kZscore) == steps.end()) {
    if (!steps.empty()) ScaleRowsToUnit(features.sparse());
    return normalizer;
  }
  if (features.cols() > max_dense_bytes / sizeof(double) / std::max<std::size_t>(features.rows(), 1)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a z-score makes sparse features dense, and ", features.rows(), " x ", features.cols(),
                     " numbers need more than ", max_dense_bytes >> 30,
                     " GiB; scale rows to unit length instead, which keeps them sparse"));
  }
  features.MakeDense();
  return FitInPlace(steps, features.dense().view());
}

absl::StatusOr<Normalizer> Normalizer::FitInPlace(const std::vector<NormalizeStep>& steps, MutableMatrixView features) {
  Normalizer normalizer;
  normalizer.steps_ = steps;
  for (NormalizeStep step : steps) {
    if (step == NormalizeStep::kZscore) FULCRUM_RETURN_IF_ERROR(normalizer.FitZscore(features));
    normalizer.ApplyStep(step, features);
  }
  return normalizer;
}

void Normalizer::Apply(MutableMatrixView features) const {
  for (NormalizeStep step : steps_) ApplyStep(step, features);
}

absl::Status Normalizer::FitZscore(ConstMatrixView features) {
  const auto rows = static_cast<double>(features.rows());
  means_ = ColumnSums(features, [](std::size_t, double value) { return value; });
  for (double& mean : means_) mean /= rows;
  deviations_ = ColumnSums(
      features, [this](std::size_t col, double value) { return (value - means_[col]) * (value - means_[col]); });
  for (double& deviation : deviations_) deviation = rows > 1 ? std::sqrt(deviation / (rows - 1)) : 0;
  return SettleDeviations();
}

absl::Status Normalizer::SettleDeviations() {
  for (std::size_t col = 0; col < deviations_.size(); ++col) {
    if (!std::isfinite(means_[col]) || !std::isfinite(deviations_[col])) {
      return absl::DataLossError(absl::StrCat(
          "the values of feature ", col + 1, " are too large for a z-score (their squares overflow); scale them down"));
    }
    if (deviations_[col] >= kSmallestDeviation) continue;
    deviations_[col] = 1;
    constant_columns_.push_back(col);
  }
  return absl::OkStatus();
}

absl::StatusOr<Normalizer> Normalizer::FromStatistics(const std::vector<NormalizeStep>& steps,
                                                      std::vector<double> means, std::vector<double> deviations) {
  Normalizer normalizer;
  normalizer.steps_ = steps;
  const auto zscore = std::find(steps.begin(), steps.end(), NormalizeStep::kZscore);
  if (zscore == steps.end()) return normalizer;
  if (zscore != steps.begin()) {
    return absl::FailedPreconditionError("a z-score after another step needs the rows themselves");
  }
  normalizer.means_ = std::move(means);
  normalizer.deviations_ = std::move(deviations);
  FULCRUM_RETURN_IF_ERROR(normalizer.SettleDeviations());
  return normalizer;
}

void Normalizer::ApplyStep(NormalizeStep step, MutableMatrixView features) const {
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<double> values = features.row(row);
      if (step == NormalizeStep::kUnit) {
        ScaleToUnit(values);
        continue;
      }
      for (std::size_t col = 0; col < values.size(); ++col)
        values[col] = (values[col] - means_[col]) / deviations_[col];
    }
  });
}

}  // namespace fulcrum::ingest
