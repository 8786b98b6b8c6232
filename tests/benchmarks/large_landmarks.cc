// Accuracy of landmarks: exact leverage of batches of 100 selected by landmark scores, compared with the exact batch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmark_engine.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kBatch = 100;

std::vector<std::size_t> Order(const std::vector<double>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

double Collected(const std::vector<std::size_t>& order, const std::vector<double>& exact) {
  double sum = 0;
  for (std::size_t i = 0; i < kBatch; ++i) sum += exact[order[i]];
  return sum;
}

/// Returns how many rows of the batch are landmarks.
std::size_t LandmarksAmong(const std::vector<std::size_t>& order, std::span<const RowIndex> landmarks) {
  return static_cast<std::size_t>(std::count_if(order.begin(), order.begin() + kBatch, [&](std::size_t row) {
    return std::ranges::binary_search(landmarks, static_cast<RowIndex>(row));
  }));
}

/// Returns Spearman's rank correlation.
double RankCorrelation(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  const std::size_t size = a.size();
  std::vector<double> rank(size);
  for (std::size_t i = 0; i < size; ++i) rank[a[i]] = static_cast<double>(i);
  double squares = 0;
  for (std::size_t i = 0; i < size; ++i) squares += std::pow(rank[b[i]] - static_cast<double>(i), 2);
  const auto n = static_cast<double>(size);
  return 1 - 6 * squares / (n * (n * n - 1));
}

void Compare(const char* name, Matrix<double> points, const kernel::KernelFunction& kernel, double tau, double bar,
             std::initializer_list<std::size_t> counts) {
  const std::size_t size = points.rows();
  const kernel::DenseFeatures features(std::move(points));
  RowList rows(size);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  leverage::LeverageScores exact;
  const double exact_seconds = FastestSeconds(1, [&] {
    const kernel::TiledKernel tiled(kernel, features, rows);
    exact = *leverage::ComputeLeverage(tiled, {.tau = tau, .engine = "tiled"});
  });
  const auto best = Order(exact.scores);
  std::printf(
      "\n%s, %zu rows of the class, tau %g: exact k = %zu in %.1f s; a random batch collects %.3f\n", name, size, tau,
      exact.eigen.rank, exact_seconds,
      kBatch * static_cast<double>(exact.eigen.rank) / static_cast<double>(size) / Collected(best, exact.scores));
  for (const std::size_t count : counts) {
    for (const bool refine : {false, true}) {
      leverage::LandmarkEngine engine(kernel, features);
      leverage::LandmarkScores scores;
      const double seconds =
          FastestSeconds(1, [&] { scores = *engine.Score(rows, {.tau = tau, .landmarks = count, .refine = refine}); });
      const auto order = Order(scores.scores);
      std::printf("  n_s %5zu %s  %6.1f s  k %3zu  share %.3f  residual %.1e  sample %.3f  rank correlation %.4f\n",
                  count, refine ? "refined" : "       ", seconds, scores.rank, scores.quality.captured_share,
                  scores.quality.residual, scores.quality.collected_share, RankCorrelation(order, best));
      std::printf("  of the batch of 100, %zu are landmarks; of the exact batch, %zu\n",
                  LandmarksAmong(order, engine.landmarks()), LandmarksAmong(best, engine.landmarks()));
      PrintAtLeast("exact leverage of the batch of 100, relative to the exact batch",
                   Collected(order, exact.scores) / Collected(best, exact.scores), bar);
      std::fflush(stdout);
    }
  }
}

/// One class of ringnorm, normalised together with the other: isotropic, the hardest case.
Matrix<double> Ringnorm(std::size_t rows) {
  constexpr std::size_t kDims = 20;
  Random random(7);
  Matrix<double> both(2 * rows, kDims);
  for (std::size_t i = 0; i < 2 * rows; ++i) {
    for (double& value : both.row(i)) {
      value = i < rows ? 2 * random.Normal() : 2 / std::sqrt(static_cast<double>(kDims)) + random.Normal();
    }
  }
  testing::StandardizeAndScaleToUnit(both.view());
  return Matrix<double>::CopyOf(std::as_const(both).view().Rows(rows, rows));
}

/// Repeats rows until there are enough, with noise of a fifth of their length, in the coordinates of the leading
/// principal directions, scaled to unit length.
Matrix<double> NoisyCopies(const Matrix<double>& rows, std::size_t count, std::size_t directions) {
  Matrix<double> covariance(rows.cols(), rows.cols());
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0, rows.view(), rows.view(), 0.0, covariance.view());
  const linalg::FullEigen eigen = *linalg::DecomposeSymmetric(std::move(covariance));
  Matrix<double> originals(rows.rows(), directions), copies(count, directions);
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, rows.view(),
               eigen.vectors.view().Rows(rows.cols() - directions, directions), 0.0, originals.view());
  Random random(11);
  for (std::size_t i = 0; i < count; ++i) {
    const auto original = originals.row(i % originals.rows());
    const double noise = 0.2 * linalg::Norm(original) / std::sqrt(static_cast<double>(directions));
    std::transform(original.begin(), original.end(), copies.row(i).begin(),
                   [&](double value) { return value + noise * random.Normal(); });
    const double length = linalg::Norm(copies.row(i));
    for (double& value : copies.row(i)) value /= length;
  }
  return copies;
}

}  // namespace

void CompareLandmarks() {
  if (auto data = testing::LoadDataSet("mnist_3vs5.csv.gz")) {
    testing::StandardizeAndScaleToUnit(data->features.view());
    Compare("MNIST 3 against 5", testing::RowsWithLabel(*data, 1, 7141), {.sigma = 2}, 0.75, 0.95, {500, 1000, 2000});
    Compare("MNIST 3 against 5, both classes", std::move(data->features), {.sigma = 2}, 0.75, 0.95, {500, 1000, 2000});
  }
  Compare("ringnorm", Ringnorm(10000), {.sigma = 1}, 0.5, 0.9, {500, 1000, 2000, 4000});
}

void CompareLandmarksLarge() {
  if (auto data = testing::LoadDataSet("mnist_3vs5.csv.gz")) {
    testing::StandardizeAndScaleToUnit(data->features.view());
    Compare("MNIST 3 against 5, both classes, copies with noise, 64 principal directions",
            NoisyCopies(data->features, 50000, 64), {.sigma = 2}, 0.75, 0.95, {1000, 2000});
  }
  Compare("ringnorm", Ringnorm(50000), {.sigma = 1}, 0.5, 0.9, {2000, 4000});
}

}  // namespace fulcrum::benchmarks
