// Products with a recomputed kernel, compared with the rate of the matrix products that they consist of.
#include <cstdio>
#include <numeric>

#include "stages/kernel/features.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_scores.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRows = 100000;
constexpr std::size_t kDims = 64;
constexpr std::size_t kLatent = 12;
constexpr std::size_t kWidth = 32;  // block width of the tiled engine
constexpr double kTau = 0.67;       // k = 50

RowList AllRows(std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  return rows;
}

}  // namespace

void MeasureTiledPass() {
  std::printf("\nA pass of the tiled engine over %zu x %zu, %zu vectors\n", kRows, kDims, kWidth);
  const kernel::DenseFeatures features(EmbeddingLikeRows(kRows, kDims, kLatent, 1));
  const RowList rows = AllRows(kRows);
  const kernel::TiledKernel kernel({.sigma = 1}, features, rows);
  const Matrix<double> x = testing::RandomMatrix(kWidth, kRows, 2);
  Matrix<double> y(kWidth, kRows);
  const double rate = DoubleGemmRate();
  const double seconds = FastestSeconds(1, [&] { kernel.Apply(x.view(), y.view()); });
  const double pairs = 0.5 * static_cast<double>(kRows) * static_cast<double>(kRows);
  const double flops = pairs * (2.0 * kDims + 4.0 * kWidth);
  PrintFigure("dgemm, all cores", rate * 1e-9, "Gflop/s");
  PrintFigure("a pass", seconds, "s");
  PrintAtLeast("useful operations relative to dgemm's rate", flops / seconds / rate, 0.5);
}

void MeasureTiledSolve() {
  std::printf("\nScores of %zu x %zu by the tiled engine, tau %g\n", kRows, kDims, kTau);
  const kernel::DenseFeatures features(EmbeddingLikeRows(kRows, kDims, kLatent, 1));
  const RowList rows = AllRows(kRows);
  leverage::LeverageScores scores;
  const double seconds = FastestSeconds(1, [&] {
    const kernel::TiledKernel kernel({.sigma = 1}, features, rows);
    scores = *leverage::ComputeLeverage(kernel, {.tau = kTau, .engine = "tiled"});
  });
  std::printf("  k = %zu, %s, residual %.1e\n", scores.eigen.rank, scores.eigen.reason.c_str(), scores.eigen.residual);
  PrintFigure("time", seconds, "s");
  PrintAtMost("peak memory of the process", PeakMebibytes(), 1024, "MiB");
}

}  // namespace fulcrum::benchmarks
