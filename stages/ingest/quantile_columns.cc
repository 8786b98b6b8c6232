#include <algorithm>
#include <cmath>
#include <span>

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
  if (variance > 0) column.scale = 1 / std::sqrt(variance);
  return column;
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
          std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(at), above, column.scale);
        } else if (!column.values.empty()) {
          to[at] = ScoreOf(column.values, column.scores, above, value);
        }
        at += WidthOf(column);
      }
    }
  });
  return replaced;
}

}  // namespace fulcrum::ingest
