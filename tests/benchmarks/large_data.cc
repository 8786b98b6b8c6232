#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/linalg/blas.h"
#include "tbb/info.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kGemmSize = 1024;
constexpr int kGemmRepeats = 8;

template <typename T>
double GemmRate() {
  const auto threads = static_cast<std::size_t>(tbb::info::default_concurrency());
  const auto filled = [](T value) {
    Matrix<T> matrix(kGemmSize, kGemmSize);
    for (std::size_t i = 0; i < kGemmSize; ++i) std::fill_n(matrix.row(i).data(), kGemmSize, value);
    return matrix;
  };
  const Matrix<T> a = filled(T(0.5)), b = filled(T(0.25));
  const double seconds = FastestSeconds(3, [&] {
    ParallelForBlocks(threads, 1, [&](std::size_t, std::size_t) {
      Matrix<T> c(kGemmSize, kGemmSize);
      for (int repeat = 0; repeat < kGemmRepeats; ++repeat) {
        linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, T(1), a.view(), b.view(), T(0), c.view());
      }
    });
  });
  const double flops = 2.0 * kGemmSize * kGemmSize * kGemmSize * kGemmRepeats * static_cast<double>(threads);
  return flops / seconds;
}

}  // namespace

Matrix<double> EmbeddingLikeRows(std::size_t rows, std::size_t dims, std::size_t latent, std::uint64_t seed,
                                 std::size_t first_row) {
  const Matrix<double> map = testing::RandomMatrix(latent, dims, seed);
  Matrix<double> points(rows, dims);
  constexpr std::size_t kRowsPerTask = 4096;
  ParallelForBlocks(rows, kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Random random = Random::Fork(seed, first_row + first);
    Matrix<double> hidden(count, latent);
    for (std::size_t i = 0; i < count; ++i) {
      for (double& value : hidden.row(i)) value = random.Normal();
    }
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kNo, 1.0, std::as_const(hidden).view(), map.view(), 0.0,
                 points.view().Rows(first, count));
    for (std::size_t i = first; i < first + count; ++i) {
      for (double& value : points.row(i)) value += 0.3 * random.Normal();
      const double length = linalg::Norm(points.row(i));
      for (double& value : points.row(i)) value /= length;
    }
  });
  return points;
}

double DoubleGemmRate() {
  return GemmRate<double>();
}
double FloatGemmRate() {
  return GemmRate<float>();
}

double PeakMebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kibibytes = 0;
    status >> kibibytes;
    return kibibytes / 1024;
  }
  return 0;
}

void ForgetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM
}

}  // namespace fulcrum::benchmarks
