// Greedy selection over millions of candidates.
#include <cstdio>
#include <numeric>

#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRows = 2000000;
constexpr std::size_t kDims = 64;
constexpr std::size_t kBatch = 8417;
constexpr std::size_t kLabels = 1000;

}  // namespace

void MeasureSelection() {
  std::printf("\nA batch of %zu from %zu x %zu, %zu labels\n", kBatch, kRows, kDims, kLabels);
  const kernel::DenseFeatures features(EmbeddingLikeRows(kRows, kDims, 12, 3));
  RowList rows(kRows);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  Random random(4);
  std::vector<double> scores(kRows);
  for (double& score : scores) score = 1e-4 * random.Uniform();
  std::vector<std::size_t> labeled(kLabels);
  for (std::size_t i = 0; i < kLabels; ++i) labeled[i] = i * (kRows / kLabels);
  select::GreedyBatch batch;
  const double seconds = FastestSeconds(1, [&] {
    batch = *select::MaximizeStreamed({.features = &features,
                                       .kernel = {.sigma = 1},
                                       .rows = rows,
                                       .scores = scores,
                                       .labeled = labeled,
                                       .batch = kBatch,
                                       .alpha = 0.5});
  });
  std::printf("  %zu picked from %zu shortlists, F = %.6g, bound %.6g\n", batch.positions.size(), batch.evaluations,
              batch.value, batch.upper_bound);
  PrintAtMost("selection alone", seconds, 90, "s");
}

}  // namespace fulcrum::benchmarks
