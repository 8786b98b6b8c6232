#include "stages/ingest/normalize.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kRowsPerBlock = 512;
constexpr double kSmallestDeviation = 1e-5;
constexpr std::size_t kMostQuantileRows = 4'096;
constexpr std::size_t kColumnsAtOnce = 8;     // that share the lines of the cache which a row of them takes
constexpr double kQuartilesOfNormal = 1.349;  // interquartile range of a normal distribution with deviation 1

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

namespace {

// In the order of the enumeration.
constexpr std::string_view kStepNames[] = {"zscore", "unit", "tfidf", "onehot", "robust", "quantile", "bins"};

/// Whether it may change the number of columns.
bool ReplacesColumns(const NormalizeStep& step) {
  return step == NormalizeStep::kOneHot || step == NormalizeStep::kQuantile || step == NormalizeStep::kBins;
}

bool ScalesColumns(const NormalizeStep& step) {
  return step == NormalizeStep::kZscore || step == NormalizeStep::kRobust || ReplacesColumns(step);
}

bool AnyScalesColumns(const std::vector<NormalizeStep>& steps) {
  return std::ranges::any_of(steps, ScalesColumns);
}

}  // namespace

absl::StatusOr<std::vector<NormalizeStep>> ParseNormalization(absl::string_view text) {
  std::vector<NormalizeStep> steps;
  if (absl::StripAsciiWhitespace(text) == "none") return steps;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('@', 1));
    const auto& [name, relevance] = halves;
    const auto* const found = std::ranges::find(kStepNames, std::string(name));
    if (found == std::end(kStepNames)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown normalisation '", name,
                                                     "'; it must be none, zscore, robust, unit, tfidf, onehot, "
                                                     "quantile, bins, or several of them joined by commas"));
    }
    NormalizeStep step(static_cast<NormalizeStep::Kind>(found - std::begin(kStepNames)));
    const bool digits = std::ranges::all_of(relevance, [](char digit) { return RelevanceFactor(digit) >= 0; });
    if (absl::StrContains(part, '@') && (step != NormalizeStep::kBins || relevance.empty() || !digits)) {
      return absl::InvalidArgumentError(
          absl::StrCat("what follows '@' in the normalisation '", name,
                       "@' must be hexadecimal digits, one for each column of bins, and only bins has them"));
    }
    step.relevance = std::string(relevance);
    if (std::find(steps.begin(), steps.end(), step) != steps.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the normalisation '", name, "' is named twice"));
    }
    steps.push_back(std::move(step));
  }
  if (std::ranges::count_if(steps, ScalesColumns) > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the normalisation '", text,
                                                   "' scales columns twice; choose one of ",
                                                   "zscore, robust, onehot, quantile and bins"));
  }
  return steps;
}

RowList RowsForQuantiles(std::size_t rows) {
  const std::size_t count = std::min(rows, kMostQuantileRows);
  RowList sample(count);
  for (std::size_t i = 0; i < count; ++i) sample[i] = static_cast<RowIndex>(i * rows / count);
  return sample;
}

void ScaleRowsToUnit(SparseMatrix& features) {
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) ScaleToUnit(features.ValuesOf(row));
  });
}

absl::StatusOr<Normalizer> Normalizer::FitInPlace(const std::vector<NormalizeStep>& steps, PoolFeatures& features,
                                                  std::size_t max_dense_bytes) {
  if (features.is_sparse() && !AnyScalesColumns(steps)) {
    Normalizer normalizer;
    normalizer.steps_ = steps;
    for (const NormalizeStep& step : steps) {
      if (step == NormalizeStep::kTfidf) normalizer.FitInverseFrequencies(features.sparse());
      normalizer.ApplyStep(step, features.sparse());
    }
    return normalizer;
  }
  if (features.is_sparse() &&
      features.cols() > max_dense_bytes / sizeof(double) / std::max<std::size_t>(features.rows(), 1)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("scaling columns makes sparse features dense, and ", features.rows(), " x ", features.cols(),
                     " numbers need more than ", max_dense_bytes >> 30,
                     " GiB; scale rows to unit length instead, which keeps them sparse"));
  }
  features.MakeDense();
  if (std::ranges::none_of(steps, ReplacesColumns)) return FitInPlace(steps, features.dense().view());
  FULCRUM_ASSIGN_OR_RETURN(Normalizer normalizer, Fit(steps, features.dense().view()));
  normalizer.Apply(features);
  return normalizer;
}

absl::StatusOr<Normalizer> Normalizer::FitInPlace(const std::vector<NormalizeStep>& steps, MutableMatrixView features) {
  Normalizer normalizer;
  normalizer.steps_ = steps;
  for (const NormalizeStep& step : steps) {
    if (step == NormalizeStep::kZscore) FULCRUM_RETURN_IF_ERROR(normalizer.FitZscore(features));
    if (step == NormalizeStep::kRobust) FULCRUM_RETURN_IF_ERROR(normalizer.FitQuantiles(features));
    if (step == NormalizeStep::kTfidf) normalizer.FitInverseFrequencies(features);
    normalizer.ApplyStep(step, features);
  }
  return normalizer;
}

namespace {

/// A step that learns must see the features as they are.
absl::Status CheckOneStepLearns(const std::vector<NormalizeStep>& steps) {
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i] != NormalizeStep::kUnit) {
      return absl::FailedPreconditionError("a step that learns from the features must be the first step");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Fit(const std::vector<NormalizeStep>& steps, ConstMatrixView features) {
  FULCRUM_RETURN_IF_ERROR(CheckOneStepLearns(steps));
  Normalizer normalizer;
  normalizer.steps_ = steps;
  if (steps.empty() || steps[0] == NormalizeStep::kUnit) return normalizer;
  if (steps[0] == NormalizeStep::kTfidf) {
    normalizer.FitInverseFrequencies(features);
  } else if (steps[0] == NormalizeStep::kRobust) {
    FULCRUM_RETURN_IF_ERROR(normalizer.FitQuantiles(features));
  } else if (steps[0] == NormalizeStep::kQuantile || steps[0] == NormalizeStep::kBins) {
    FULCRUM_RETURN_IF_ERROR(normalizer.FitQuantileColumns(steps[0], features));
  } else {
    FULCRUM_RETURN_IF_ERROR(normalizer.FitZscore(features));
  }
  if (steps[0] == NormalizeStep::kOneHot) FULCRUM_RETURN_IF_ERROR(normalizer.FitCategories(features));
  return normalizer;
}

absl::StatusOr<Normalizer> Normalizer::Fit(const std::vector<NormalizeStep>& steps, const SparseMatrix& features) {
  FULCRUM_RETURN_IF_ERROR(CheckOneStepLearns(steps));
  Normalizer normalizer;
  normalizer.steps_ = steps;
  if (steps.empty() || steps[0] == NormalizeStep::kUnit) return normalizer;
  if (steps[0] != NormalizeStep::kTfidf) {
    return absl::FailedPreconditionError("scaled or one-hot columns would make sparse features dense");
  }
  normalizer.FitInverseFrequencies(features);
  return normalizer;
}

void Normalizer::Apply(MutableMatrixView features) const {
  for (const NormalizeStep& step : steps_) ApplyStep(step, features);
}

void Normalizer::Apply(PoolFeatures& features) const {
  if (!means_.empty()) features.MakeDense();
  if (!categories_.empty()) features = PoolFeatures(WithCategories(features.dense().view()));
  if (!quantiles_.empty()) {
    features.MakeDense();
    features = PoolFeatures(quantiles_.Replace(features.dense().view()));
  }
  if (!features.is_sparse()) return Apply(features.dense().view());
  for (const NormalizeStep& step : steps_) ApplyStep(step, features.sparse());
}

namespace {

constexpr std::size_t kFewestCategories = 3, kMostCategories = 10;

/// The different values of a column if these are few whole numbers, otherwise none.
std::vector<double> CategoriesOf(ConstMatrixView features, std::size_t col) {
  std::vector<double> values;
  for (std::size_t row = 0; row < features.rows(); ++row) {
    const double value = features(row, col);
    const auto at = std::lower_bound(values.begin(), values.end(), value);
    if (at != values.end() && *at == value) continue;
    if (value != std::round(value) || values.size() == kMostCategories) return {};
    values.insert(at, value);
  }
  if (values.size() < kFewestCategories) values.clear();
  return values;
}

}  // namespace

absl::Status Normalizer::FitCategories(ConstMatrixView features) {
  categories_.resize(features.cols());
  const auto rows = static_cast<double>(features.rows());
  for (std::size_t col = 0; col < features.cols(); ++col) {
    Categories& categories = categories_[col];
    categories.values = CategoriesOf(features, col);
    double variance = 0;
    for (const double value : categories.values) {
      double count = 0;
      for (std::size_t row = 0; row < features.rows(); ++row) count += features(row, col) == value ? 1 : 0;
      variance += count / rows * (1 - count / rows);
    }
    if (variance > 0) categories.scale = 1 / std::sqrt(variance);
  }
  return absl::OkStatus();
}

Matrix<double> Normalizer::WithCategories(ConstMatrixView features) const {
  std::size_t cols = 0;
  for (const Categories& categories : categories_) cols += std::max<std::size_t>(categories.values.size(), 1);
  Matrix<double> replaced = Matrix<double>::Zero(features.rows(), cols);
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      std::size_t to = 0;
      for (std::size_t col = 0; col < features.cols(); ++col) {
        const auto& [values, scale] = categories_[col];
        const double value = features(row, col);
        if (values.empty()) {
          replaced(row, to++) = (value - means_[col]) / deviations_[col];
          continue;
        }
        // A number that was not there when the categories were learned is none of them.
        const auto at = std::lower_bound(values.begin(), values.end(), value);
        if (at != values.end() && *at == value)
          replaced(row, to + static_cast<std::size_t>(at - values.begin())) = scale;
        to += values.size();
      }
    }
  });
  return replaced;
}

void Normalizer::FitInverseFrequencies(ConstMatrixView features) {
  SetInverseFrequencies(ColumnSums(features, [](std::size_t, double value) { return value != 0 ? 1.0 : 0.0; }),
                        features.rows());
}

void Normalizer::FitInverseFrequencies(const SparseMatrix& features) {
  std::vector<double> counts(features.cols, 0.0);
  for (std::size_t i = 0; i < features.values.size(); ++i) {
    if (features.values[i] != 0) ++counts[static_cast<std::size_t>(features.columns[i])];
  }
  SetInverseFrequencies(std::move(counts), features.rows());
}

void Normalizer::SetInverseFrequencies(std::vector<double> counts, std::size_t rows) {
  for (double& count : counts) count = std::log((1 + static_cast<double>(rows)) / (1 + count)) + 1;
  inverse_frequencies_ = std::move(counts);
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

namespace {

/// Median and scale of one column; the values are reordered. If most values are equal, the deviation is the scale.
std::pair<double, double> MedianAndScale(std::span<double> values) {
  const auto at = [&](double share) {
    return values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  };
  const auto lower = at(0.25), middle = at(0.5), upper = at(0.75);
  std::nth_element(values.begin(), middle, values.end());
  const double median = *middle;
  // What is below the median and what is above it are each searched on their own.
  if (lower < middle) std::nth_element(values.begin(), lower, middle);
  if (middle < upper) std::nth_element(middle + 1, upper, values.end());
  const double low = *lower, high = *upper;
  if (high > low) return {median, (high - low) / kQuartilesOfNormal};
  double squares = 0;
  for (const double value : values) squares += (value - median) * (value - median);
  return {median, std::sqrt(squares / static_cast<double>(values.size()))};
}

}  // namespace

absl::Status Normalizer::FitQuantiles(ConstMatrixView features) {
  const RowList rows = RowsForQuantiles(features.rows());
  means_.assign(features.cols(), 0);
  deviations_.assign(features.cols(), 0);
  if (rows.empty()) return SettleDeviations();
  ParallelForBlocks(features.cols(), kColumnsAtOnce, [&](std::size_t first, std::size_t count) {
    Matrix<double> columns(count, rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const double> values = features.row(rows[i]).subspan(first, count);
      for (std::size_t col = 0; col < count; ++col) columns(col, i) = values[col];
    }
    for (std::size_t col = 0; col < count; ++col) {
      std::tie(means_[first + col], deviations_[first + col]) = MedianAndScale(columns.row(col));
    }
  });
  return SettleDeviations();
}

absl::Status Normalizer::FitQuantileColumns(const NormalizeStep& step, ConstMatrixView features) {
  const RowList rows = RowsForQuantiles(features.rows());
  Matrix<double> sample(rows.size(), features.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(features.row(rows[i]), sample.row(i).begin());
  const auto kind = step == NormalizeStep::kBins ? QuantileColumns::Kind::kBins : QuantileColumns::Kind::kNormal;
  quantiles_ = QuantileColumns(kind, sample.view());
  return step.relevance.empty() ? absl::OkStatus() : quantiles_.Weigh(step.relevance);
}

absl::Status Normalizer::SettleDeviations() {
  for (std::size_t col = 0; col < deviations_.size(); ++col) {
    if (!std::isfinite(means_[col]) || !std::isfinite(deviations_[col])) {
      return absl::DataLossError(absl::StrCat("the values of feature ", col + 1,
                                              " are too large to be scaled (their squares overflow); scale them down"));
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
  for (const NormalizeStep& step : steps) {
    if (step != NormalizeStep::kZscore && step != NormalizeStep::kUnit) {
      return absl::FailedPreconditionError("quantiles, tf-idf and one-hot columns need the rows themselves");
    }
  }
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

void Normalizer::ApplyStep(const NormalizeStep& step, MutableMatrixView features) const {
  if (ReplacesColumns(step)) return;  // that has been done before
  const NormalizeStep::Kind kind = step.kind;
  ParallelForBlocks(features.rows(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<double> values = features.row(row);
      if (kind == NormalizeStep::kUnit) {
        ScaleToUnit(values);
        continue;
      }
      for (std::size_t col = 0; col < values.size(); ++col) {
        values[col] = kind == NormalizeStep::kTfidf ? values[col] * inverse_frequencies_[col]
                                                    : (values[col] - means_[col]) / deviations_[col];
        if (kind == NormalizeStep::kRobust) values[col] = std::clamp(values[col], -kLargestRobust, kLargestRobust);
      }
    }
  });
}

void Normalizer::ApplyStep(const NormalizeStep& step, SparseMatrix& features) const {
  if (step == NormalizeStep::kUnit) return ScaleRowsToUnit(features);
  for (std::size_t i = 0; i < features.values.size(); ++i) {
    features.values[i] *= inverse_frequencies_[static_cast<std::size_t>(features.columns[i])];
  }
}

}  // namespace fulcrum::ingest
