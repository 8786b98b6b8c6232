// Distances between rows, as coverage measures them: local scales, medians, and the nearest of a set of rows.

#include <algorithm>
#include <cmath>
#include <limits>

#include "stages/core/parallel.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsAtOnce = 512;
constexpr std::size_t kCentersAtOnce = 256;

// Pairs of so many references are enough for a median.
constexpr std::size_t kRowsForMedian = 256;

// Local scales look at all references if they are few, and otherwise at a sample: the distance to the nearest eighth of
// a sample varies little, and it is computed for every row of the pool.
constexpr std::size_t kFewReferences = 1024;
constexpr std::size_t kAnchorsOfMany = 128;
constexpr std::size_t kNearestShare = 8;
// Copies have no distance from the rows around them: a scale is at least this share of the usual one.
constexpr double kLeastScale = 1e-3;
// Scales are rounded to so many bits, so that they do not depend on the order in which a product was summed.
constexpr int kScaleBits = 16;

double RoundedScale(double scale) {
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, kScaleBits)), exponent - kScaleBits);
}

}  // namespace

LocalScales::LocalScales(const kernel::Features& features, std::span<const RowIndex> references) : features_(features) {
  const std::size_t count = references.size() <= kFewReferences ? references.size() : kAnchorsOfMany;
  for (std::size_t i = 0; i < count; ++i) anchors_.push_back(references[i * references.size() / count]);
  std::vector<double> usual = Of(anchors_);
  std::erase_if(usual, [](double scale) { return !(scale > 0); });
  if (usual.empty()) {
    least_ = 1;
    return;
  }
  const auto middle = usual.begin() + static_cast<std::ptrdiff_t>(usual.size() / 2);
  std::ranges::nth_element(usual, middle);
  least_ = kLeastScale * *middle;
}

std::vector<double> LocalScales::Of(std::span<const RowIndex> rows) const {
  std::vector<double> scales(rows.size(), least_);
  if (anchors_.empty()) return scales;
  const std::size_t at = anchors_.size() - 1 - (anchors_.size() - 1) / kNearestShare;  // with the largest first
  ParallelForBlocks(rows.size(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    Matrix<double> squared(count, anchors_.size());
    kernel::ComputeKernelBlock({.type = kernel::KernelType::kSquaredDistance}, features_, rows.subspan(first, count),
                               anchors_, squared.view());
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<double> row = squared.row(i);
      std::ranges::nth_element(row, row.begin() + static_cast<std::ptrdiff_t>(at), LargerFirst());
      scales[first + i] = std::max(RoundedScale(std::sqrt(row[at])), least_);
    }
  });
  return scales;
}

double MedianSquaredDistance(const kernel::Features& features, std::span<const RowIndex> references,
                             const LocalScales* scales) {
  RowList some;
  const std::size_t step = (references.size() + kRowsForMedian - 1) / kRowsForMedian;
  for (std::size_t i = 0; i < references.size(); i += step) some.push_back(references[i]);
  Matrix<double> dots(some.size(), some.size());
  kernel::ComputeKernelSymmetric({.type = kernel::KernelType::kLinear}, features, some, dots.view());
  const std::vector<double> scale = scales == nullptr ? std::vector<double>(some.size(), 1.0) : scales->Of(some);
  std::vector<double> distances;
  for (std::size_t i = 0; i < some.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double squared = dots(i, i) + dots(j, j) - 2 * dots(i, j);
      // Copies say nothing about the scale.
      if (squared > 1e-12 * (dots(i, i) + dots(j, j))) distances.push_back(squared / (scale[i] * scale[j]));
    }
  }
  if (distances.empty()) return 1;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

std::vector<double> NearestSquaredDistances(const kernel::Features& features, Distance distance,
                                            std::span<const RowIndex> rows, std::span<const RowIndex> centers,
                                            const LocalScales* scales) {
  std::vector<double> nearest(rows.size(), std::numeric_limits<double>::infinity());
  const std::span<const double> norms = features.squared_norms();
  const auto squared = [&](RowIndex x, RowIndex z, double dot) {
    if (distance != Distance::kAngular) return norms[x] + norms[z] - 2 * dot;
    const double product = norms[x] * norms[z];
    return product > 0 ? 2 - 2 * dot / std::sqrt(product) : 2;
  };
  const bool local = distance == Distance::kLocal;
  const std::vector<double> row_scales = local ? scales->Of(rows) : std::vector<double>(rows.size(), 1.0);
  const std::vector<double> center_scales = local ? scales->Of(centers) : std::vector<double>(centers.size(), 1.0);
  ParallelForBlocks(rows.size(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    const auto block = rows.subspan(first, count);
    for (std::size_t done = 0; done < centers.size(); done += kCentersAtOnce) {
      const auto some = centers.subspan(done, std::min(kCentersAtOnce, centers.size() - done));
      Matrix<double> dots(count, some.size());
      kernel::ComputeKernelBlock({.type = kernel::KernelType::kLinear}, features, block, some, dots.view());
      for (std::size_t i = 0; i < count; ++i) {
        double& least = nearest[first + i];
        // Rounding may make the distance of a copy negative.
        for (std::size_t j = 0; j < some.size(); ++j) {
          const double scale = row_scales[first + i] * center_scales[done + j];
          least = std::min(least, std::max(squared(block[i], some[j], dots(i, j)), 0.0) / scale);
        }
      }
    }
  });
  return nearest;
}

}  // namespace fulcrum::select
