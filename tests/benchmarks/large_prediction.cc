// Decision values of a whole pool, compared with the rate of SGEMM.
#include <cstdio>
#include <numeric>
#include <utility>

#include "stages/classify/kernel_product.h"
#include "stages/kernel/features.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRows = 400000;
constexpr std::size_t kSupport = 2000;

/// Rows in memory that are treated like those of a pool on disk.
class FloatFeatures final : public kernel::Features {
 public:
  explicit FloatFeatures(Matrix<double> values) : dense_(std::move(values)) {
    squared_norms_.assign(dense_.squared_norms().begin(), dense_.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  void DotBlock(std::span<const RowIndex> a, const Features&, std::span<const RowIndex> b,
                MutableMatrixView out) const override {
    dense_.DotBlock(a, dense_, b, out);
  }
  bool CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override {
    return dense_.CopyRows(rows, out);
  }
  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kDense; }
  bool prefers_float() const override { return true; }

 private:
  kernel::DenseFeatures dense_;
};

void MeasureAt(std::size_t dims) {
  const FloatFeatures features(EmbeddingLikeRows(kRows, dims, 12, 1));
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
  PrintAtLeast("useful operations beside sgemm's rate", flops / seconds / rate, 0.6);
}

}  // namespace

void MeasurePrediction() {
  std::printf("\nPrediction over a pool in float32\n");
  for (const std::size_t dims : {64, 256}) MeasureAt(dims);
}

}  // namespace fulcrum::benchmarks
