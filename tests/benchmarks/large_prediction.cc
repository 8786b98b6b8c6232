// Decision values of a whole pool, compared with the rate of SGEMM.
#include <cstdio>
#include <numeric>
#include <utility>

#include "stages/classify/svm_model.h"
#include "stages/kernel/features.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRows = 400000;
constexpr std::size_t kSupport = 2000;

void MeasureAt(std::size_t dims) {
  // Rows in memory that are treated like those of a pool on disk.
  const kernel::DenseFeatures features(EmbeddingLikeRows(kRows, dims, 12, 1), kernel::Precision::kFloat);
  RowList rows(kRows), support(kSupport);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  for (std::size_t i = 0; i < kSupport; ++i) support[i] = static_cast<RowIndex>(i * (kRows / kSupport));
  const Matrix<double> coefficients = testing::RandomMatrix(kSupport, 1, 2);
  const double offset = 0.1;
  Matrix<double> decisions(kRows, 1);
  const double rate = FloatGemmRate();
  const double seconds = FastestSeconds(3, [&] {
    classify::ComputeKernelProduct({.sigma = 1}, {&features, support, coefficients.view()}, features, rows,
                                   std::span(&offset, 1), false, decisions.view());
  });
  const double flops = 2.0 * static_cast<double>(kRows) * static_cast<double>(kSupport) * static_cast<double>(dims + 1);
  std::printf("  %zu x %zu, %zu support vectors: %.2f s, sgemm %.1f Gflop/s\n", kRows, dims, kSupport, seconds,
              rate * 1e-9);
  PrintAtLeast("useful operations relative to sgemm's rate", flops / seconds / rate, 0.6);
}

}  // namespace

void MeasurePrediction() {
  std::printf("\nPrediction over a pool in float32\n");
  for (const std::size_t dims : {64, 256}) MeasureAt(dims);
}

}  // namespace fulcrum::benchmarks
