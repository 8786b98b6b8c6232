// Compares the Krylov solver with a full dsyevd on the positive class of MNIST 3 against 5, with one thread each, and
// its warm start with its cold start after a few rows changed.
#include <cmath>
#include <numeric>

#include "stages/core/random.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/top_eigen.h"
#include "tbb/global_control.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kMoved = 10;

double LargestDifference(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

RowList Range(RowIndex first, std::size_t count) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

void CompareWithDense(const kernel::Features& features, std::size_t m, double bar) {
  std::printf("\nm = %zu, rbf sigma 2, tau 0.75, one thread\n", m);
  const kernel::KernelFunction rbf{.type = kernel::KernelType::kRbf, .sigma = 2};
  kernel::RowSetKernel kernel(rbf, features);
  kernel.Update(Range(0, m));
  const linalg::DenseSymmetricOperator matrix(kernel.matrix());

  leverage::LeverageScores dense, cold;
  const double dense_seconds =
      FastestCpuSeconds(1, [&] { dense = *leverage::ComputeLeverage(matrix, {.tau = 0.75, .engine = "dense"}); });
  const double cold_seconds =
      FastestCpuSeconds(3, [&] { cold = *leverage::ComputeLeverage(matrix, {.tau = 0.75, .engine = "krylov"}); });
  std::printf("  dense %.2f s, krylov %.3f s (%s), k = %zu and %zu\n", dense_seconds, cold_seconds,
              cold.eigen.reason.c_str(), dense.eigen.rank, cold.eigen.rank);
  PrintAtLeast("krylov faster than dsyevd by", dense_seconds / cold_seconds, bar);
  PrintAtMost("difference in k", std::abs(double(dense.eigen.rank) - double(cold.eigen.rank)), 0);
  PrintAtMost("largest difference in scores", LargestDifference(dense.scores, cold.scores), 1e-8);

  // Ten rows leave the class and ten others enter it, as after a round of labels.
  leverage::WarmStart warm;
  warm.Remember(kernel.rows(), std::move(cold.eigen));
  RowList moved = Range(0, m);
  for (std::size_t i = 0; i < kMoved; ++i) moved[i * (m / kMoved)] = static_cast<RowIndex>(m + i);
  kernel.Update(moved);
  const linalg::DenseSymmetricOperator changed(kernel.matrix());
  leverage::LeverageScores warm_scores, cold_again;
  const double cold_again_seconds = FastestCpuSeconds(
      9, [&] { cold_again = *leverage::ComputeLeverage(changed, {.tau = 0.75, .engine = "krylov"}); });
  const double warm_seconds = FastestCpuSeconds(9, [&] {
    const leverage::StartSubspace start = warm.For(kernel);
    warm_scores = *leverage::ComputeLeverage(
        changed,
        {.tau = 0.75, .engine = "krylov", .start = start.vectors.view(), .start_multiplied = start.multiplied.view()});
  });
  std::printf("  after %zu rows moved: cold %.3f s, warm %.3f s (%s)\n", kMoved, cold_again_seconds, warm_seconds,
              warm_scores.eigen.reason.c_str());
  PrintAtLeast("warm start faster than cold by", cold_again_seconds / warm_seconds, 3);
  PrintAtMost("largest difference of warm and cold scores", LargestDifference(warm_scores.scores, cold_again.scores),
              1e-8);
}

int Run() {
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  auto data = testing::LoadDataSet("mnist_3vs5.csv.gz");
  if (!data) {
    std::printf("skipped: mnist_3vs5.csv.gz is not here; set FULCRUM_DATA to its folder\n");
    return 0;
  }
  testing::StandardizeAndScaleToUnit(data->features.view());
  const kernel::DenseFeatures features(testing::RowsWithLabel(*data, 1, 7100));
  PrintHeading("Leverage scores of the positive class of MNIST 3 against 5");
  CompareWithDense(features, 3500, 15);
  CompareWithDense(features, 7000, 40);
  return 0;
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  return fulcrum::benchmarks::Run();
}
