#include "stages/leverage/landmark_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmark_pass.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {
namespace {

constexpr std::size_t kPickedOneOf = 20;

std::vector<std::size_t> BestOf(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::size_t a, std::size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(count);
  return order;
}

double SumAt(const std::vector<double>& scores, std::span<const std::size_t> positions) {
  double sum = 0;
  for (const std::size_t position : positions) sum += scores[position];
  return sum;
}

}  // namespace

RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  if (count >= rows.size()) return RowList(rows.begin(), rows.end());
  RowList sample;
  for (const std::uint64_t position : SamplePositions(rows.size(), count, seed, stream)) {
    sample.push_back(rows[position]);
  }
  return sample;
}

std::vector<std::uint64_t> SamplePositions(std::size_t size, std::size_t count, std::uint64_t seed,
                                           std::uint64_t stream) {
  Random random = Random::Fork(seed, stream);
  std::vector<std::uint64_t> positions = DrawDifferent(size, count, random);
  std::sort(positions.begin(), positions.end());
  return positions;
}

RowList SummedPart(std::span<const RowIndex> rows, std::size_t class_rows, std::size_t most, std::uint64_t first_row) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  std::uint64_t one_of = 1;
  while (class_rows / one_of > most) one_of *= 2;
  RowList part;
  for (const RowIndex row : rows) {
    if (((first_row + row) * kMix >> 40) % one_of == 0) part.push_back(row);
  }
  return part;
}

absl::StatusOr<double> CollectedShare(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                      std::span<const RowIndex> landmarks, const KernelSubspace& span,
                                      std::span<const RowIndex> sample, double tau, bool refine) {
  const std::size_t size = sample.size();
  Matrix<double> exact(size, size), seen(size, landmarks.size()), projected(size, size);
  kernel::ComputeKernelSymmetric(kernel, features, sample, exact.view());
  kernel::ComputeKernelBlock(kernel, features, sample, landmarks, seen.view());
  span.Whiten(seen.view());
  // z(x)'z(y): the sample's kernel as the landmarks represent it.
  linalg::InnerProducts(seen.view(), seen.view(), projected.view());
  const linalg::DenseSymmetricOperator exact_kernel(exact.view());
  FULCRUM_ASSIGN_OR_RETURN(const LeverageScores of_exact, ComputeLeverage(exact_kernel, {.tau = tau}));
  // The same share of the sample's whole trace, of which the landmarks represent a part.
  const linalg::DenseSymmetricOperator seen_kernel(projected.view());
  const double seen_tau = std::min(1.0, tau * exact_kernel.Trace() / seen_kernel.Trace());
  FULCRUM_ASSIGN_OR_RETURN(LeverageScores of_seen, ComputeLeverage(seen_kernel, {.tau = seen_tau}));
  const std::size_t refined = refine ? VectorsToRefine(of_seen.eigen) : 0;
  if (refined > 0) {
    absl::StatusOr<std::vector<double>> scores = RefineInMemory(
        exact_kernel, of_seen.eigen.vectors.view().Rows(0, refined), {.trace = exact_kernel.Trace(), .tau = tau});
    // As in a class: if the refined functions depend on each other, the unrefined scores are used.
    if (!scores.ok() && !absl::IsInvalidArgument(scores.status())) return scores.status();
    if (scores.ok()) of_seen.scores = *std::move(scores);
  }
  const std::size_t count = std::max<std::size_t>(1, size / kPickedOneOf);
  return SumAt(of_exact.scores, BestOf(of_seen.scores, count)) / SumAt(of_exact.scores, BestOf(of_exact.scores, count));
}

namespace {

constexpr std::size_t kFewestLandmarks = 2000;
constexpr std::size_t kMostLandmarks = 4000;
// Multiplications of the first pass, n_s^2 a row, that are worth spending on a class.
constexpr double kGramWork = 2e12;
// Of the landmarks that a class should have; below it they are drawn anew.
constexpr double kLeastShareOfClass = 0.8;

}  // namespace

std::size_t DefaultLandmarks(std::size_t rows) {
  const auto affordable =
      static_cast<std::size_t>(std::sqrt(kGramWork / static_cast<double>(std::max<std::size_t>(rows, 1))));
  return std::min(rows, std::clamp(affordable, kFewestLandmarks, kMostLandmarks));
}

std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims) {
  // The factor, the sum, and the projected sum with its transpose's pages; then a block of tiles, and the features.
  return 3 * sizeof(double) * landmarks * landmarks + sizeof(float) * landmarks * (4096 + dims) +
         (std::size_t{16} << 20);
}

bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted) {
  // Landmarks from all over a class reach nearly to its last row. Where half of the rows lie behind them, the class has
  // grown to twice what they were drawn from.
  const auto behind = std::ranges::upper_bound(rows, landmarks.back());
  if (static_cast<std::size_t>(behind - rows.begin()) < rows.size() / 2) return true;
  const std::size_t of_class = landmarks.size() - RowsOnlyIn(landmarks, rows).size();
  return static_cast<double>(of_class) < kLeastShareOfClass * static_cast<double>(wanted);
}

}  // namespace fulcrum::leverage
