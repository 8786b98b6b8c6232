#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/parallel.h"
#include "stages/ingest/normalize.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kMostKnots = 256;
constexpr std::size_t kRowsAtOnce = 512;

/// The inverse of the normal distribution function, by Newton's method on erfc; exact enough for features.
double NormalQuantile(double share) {
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    const double error = std::erfc(-x / std::sqrt(2.0)) / 2 - share;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
    // Far from the solution Newton's step overshoots.
    const double step = std::clamp(error / density, -0.5, 0.5);
    x -= step;
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

/// Interpolated between the known values, of which `above` are at most `value`.
double ScoreOf(std::span<const double> values, std::span<const double> scores, std::size_t above, double value) {
  if (above == 0) return scores.front();
  if (above == values.size()) return scores.back();
  const double part = (value - values[above - 1]) / (values[above] - values[above - 1]);
  return scores[above - 1] + part * (scores[above] - scores[above - 1]);
}

}  // namespace

QuantileColumns::QuantileColumns(Kind kind, ConstMatrixView sample) : kind_(kind), columns_(sample.cols()) {
  ParallelForBlocks(sample.cols(), 1, [&](std::size_t col, std::size_t) {
    std::vector<double> sorted;
    sorted.reserve(sample.rows());
    for (std::size_t row = 0; row < sample.rows(); ++row) sorted.push_back(sample(row, col));
    std::ranges::sort(sorted);
    columns_[col] = kind == Kind::kBins ? LearnBins(sorted) : LearnNormal(sorted);
  });
}

QuantileColumns::Column QuantileColumns::LearnNormal(const std::vector<double>& sorted) {
  Column all;
  const auto count = static_cast<double>(sorted.size());
  double sum = 0, squares = 0;
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::upper_bound(first, sorted.end(), *first);
    const auto below = static_cast<double>(first - sorted.begin()), ties = static_cast<double>(last - first);
    const double score = NormalQuantile((below + ties / 2) / count);
    all.values.push_back(*first);
    all.scores.push_back(score);
    sum += ties * score;
    squares += ties * score * score;
    first = last;
  }
  const double variance = sorted.empty() ? 0 : squares / count - (sum / count) * (sum / count);
  for (double& score : all.scores) score = variance > 1e-10 ? score / std::sqrt(variance) : 0;
  if (all.values.size() <= kMostKnots) return all;
  Column some;
  for (std::size_t i = 0; i < kMostKnots; ++i) {
    const std::size_t at = i * (all.values.size() - 1) / (kMostKnots - 1);
    some.values.push_back(all.values[at]);
    some.scores.push_back(all.scores[at]);
  }
  return some;
}

QuantileColumns::Column QuantileColumns::LearnBins(const std::vector<double>& sorted) {
  Column column;
  if (sorted.empty()) return column;
  std::vector<double> different;
  for (const double value : sorted) {
    if (!different.empty() && different.back() == value) continue;
    different.push_back(value);
    if (different.size() > kMostBins) break;
  }
  if (different.size() <= kMostBins) {
    column.values.assign(different.begin() + 1, different.end());
  } else {
    for (std::size_t i = 1; i < kMostBins; ++i) {
      const double threshold = sorted[i * sorted.size() / kMostBins];
      if (threshold == sorted.front() || (!column.values.empty() && column.values.back() == threshold)) continue;
      column.values.push_back(threshold);
    }
  }
  double variance = 0;
  for (const double threshold : column.values) {
    const double share = static_cast<double>(std::ranges::lower_bound(sorted, threshold) - sorted.begin()) /
                         static_cast<double>(sorted.size());
    variance += share * (1 - share);
  }
  column.steps.assign(column.values.size(), variance > 0 ? 1 / std::sqrt(variance) : 1);
  return column;
}

absl::Status QuantileColumns::Weigh(absl::string_view relevance) {
  std::size_t next = 0, cols = 0;
  for (const Column& column : columns_) cols += WidthOf(column);
  if (relevance.size() != cols) {
    return absl::InvalidArgumentError(absl::StrCat("the normalisation bins has ", cols, " columns here, and ",
                                                   relevance.size(), " digits follow it; they are from another pool"));
  }
  for (Column& column : columns_) {
    for (std::size_t i = 0; i < column.steps.size(); ++i) column.steps[i] *= RelevanceFactor(relevance[next + i]);
    next += WidthOf(column);
  }
  return absl::OkStatus();
}

std::size_t QuantileColumns::WidthOf(const Column& column) const {
  return kind_ == Kind::kNormal ? 1 : std::max<std::size_t>(column.values.size(), 1);
}

Matrix<double> QuantileColumns::Replace(ConstMatrixView features) const {
  std::size_t cols = 0;
  for (const Column& column : columns_) cols += WidthOf(column);
  Matrix<double> replaced = Matrix<double>::Zero(features.rows(), cols);
  ParallelForBlocks(features.rows(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<double> to = replaced.row(row);
      std::size_t at = 0;
      for (std::size_t col = 0; col < columns_.size(); ++col) {
        const Column& column = columns_[col];
        const double value = features(row, col);
        const auto above =
            static_cast<std::size_t>(std::ranges::upper_bound(column.values, value) - column.values.begin());
        if (kind_ == Kind::kBins) {
          std::copy_n(column.steps.begin(), above, to.begin() + static_cast<std::ptrdiff_t>(at));
        } else if (!column.values.empty()) {
          to[at] = ScoreOf(column.values, column.scores, above, value);
        }
        at += WidthOf(column);
      }
    }
  });
  return replaced;
}

namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr double kLargestDigit = 15;
// Squared factor of a column that says nothing: a class may depend on it together with others.
constexpr double kLeastRelevance = 0.05;

}  // namespace

std::string RelevanceOf(ConstMatrixView features, std::span<const ClassIndex> classes,
                        std::span<const double> weights) {
  const std::size_t cols = features.cols();
  std::map<ClassIndex, std::pair<double, std::vector<double>>> sums;  // by class: weight, and sums of its columns
  std::vector<double> total(cols, 0.0), squares(cols, 0.0);
  double weight_of_all = 0, rows = 0;
  for (std::size_t row = 0; row < features.rows(); ++row) {
    const double weight = weights.empty() ? 1 : weights[row];
    if (weight == 0) continue;
    auto& [class_weight, of_class] = sums[classes[row]];
    of_class.resize(cols, 0.0);
    class_weight += weight;
    weight_of_all += weight;
    rows += 1;
    const std::span<const double> values = features.row(row);
    for (std::size_t col = 0; col < cols; ++col) {
      of_class[col] += weight * values[col];
      total[col] += weight * values[col];
      squares[col] += weight * values[col] * values[col];
    }
  }
  const auto groups = static_cast<double>(sums.size());
  if (groups < 2 || rows <= groups) return std::string(cols, kDigits[15]);
  std::vector<double> relevance(cols, 0.0);
  double largest = 0;
  for (std::size_t col = 0; col < cols; ++col) {
    const double at_mean = total[col] * total[col] / weight_of_all, variance = squares[col] - at_mean;
    if (variance <= 1e-9 * squares[col]) continue;  // constant
    double between = -at_mean;
    for (const auto& [label, sum] : sums) between += sum.second[col] * sum.second[col] / sum.first;
    // As the adjusted R squared of a regression on the classes: 0 on average if the column has nothing to do with them.
    const double outside = std::max(1 - between / variance, 0.0);
    relevance[col] = std::max(1 - outside * (rows - 1) / (rows - groups), 0.0);
    largest = std::max(largest, relevance[col]);
  }
  std::string digits;
  for (const double value : relevance) {
    const double share = largest > 0 ? value / largest : 1;
    const double factor = std::sqrt(kLeastRelevance + (1 - kLeastRelevance) * share);
    digits.push_back(kDigits[static_cast<std::size_t>(std::lround(kLargestDigit * factor))]);
  }
  return digits;
}

double RelevanceFactor(char digit) {
  const auto* const found = std::find(kDigits, kDigits + 16, digit);
  return found == kDigits + 16 ? -1 : static_cast<double>(found - kDigits) / kLargestDigit;
}

}  // namespace fulcrum::ingest
