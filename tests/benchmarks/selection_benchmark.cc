// Compares lazy with eager greedy selection, and runs every strategy without class groups on a pool of 100,000 rows.
#include <cmath>
#include <numeric>

#include "stages/core/random.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kGroupRows = 8000;
constexpr std::size_t kGroupLabels = 100;
constexpr std::size_t kPoolRows = 100000;
constexpr std::size_t kPoolLabels = 200;
constexpr std::size_t kDims = 20;

/// b times: compute every gain, take the best, add its row to the sums. Not lazy, without a certificate,
/// single-threaded.
std::vector<std::size_t> NaiveGreedy(const select::GreedyProblem& problem) {
  const double factor = problem.alpha / static_cast<double>(problem.labeled.size() + problem.batch);
  std::vector<double> similarity(problem.rows.size(), 0.0);
  std::vector<bool> closed(problem.rows.size(), false);
  const auto add = [&](std::size_t position) {
    closed[position] = true;
    for (std::size_t i = 0; i < similarity.size(); ++i) similarity[i] += problem.kernel(position, i);
  };
  for (const std::size_t position : problem.labeled) add(position);
  std::vector<std::size_t> chosen;
  while (chosen.size() < problem.batch) {
    std::size_t best = similarity.size();
    double best_gain = 0;
    for (std::size_t i = 0; i < similarity.size(); ++i) {
      const double gain = std::fma(-factor, similarity[i], problem.scores[i] + 1);
      if (closed[i] || (best < similarity.size() && gain <= best_gain)) continue;
      best = i;
      best_gain = gain;
    }
    chosen.push_back(best);
    add(best);
  }
  return chosen;
}

void CompareGreedy(double largest_score, const char* scores_name) {
  const kernel::DenseFeatures features(testing::RandomMatrix(kGroupRows, kDims, 1));
  RowList rows(kGroupRows);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  Matrix<double> kernel(kGroupRows, kGroupRows);
  kernel::ComputeKernelSymmetric({.sigma = 6}, features, rows, kernel.view());
  Random random(2);
  std::vector<double> scores;
  for (std::size_t i = 0; i < kGroupRows; ++i) scores.push_back(largest_score * random.Uniform());
  std::vector<std::size_t> labeled(kGroupLabels);
  std::iota(labeled.begin(), labeled.end(), std::size_t{0});
  for (const std::size_t batch : {std::size_t{10}, std::size_t{100}, std::size_t{2000}}) {
    const select::GreedyProblem problem = {
        .rows = rows, .scores = scores, .kernel = kernel.view(), .labeled = labeled, .batch = batch, .alpha = 0.5};
    select::GreedyBatch lazy;
    std::vector<std::size_t> naive;
    const double lazy_seconds = FastestCpuSeconds(3, [&] { lazy = select::MaximizeGreedily(problem); });
    const double naive_seconds = FastestCpuSeconds(3, [&] { naive = NaiveGreedy(problem); });
    std::printf(
        "\ngreedy, m = %zu, b = %zu, %s: eager with running sums %.4f s, lazy with certificate %.4f s, %zu "
        "evaluations\n",
        kGroupRows, batch, scores_name, naive_seconds, lazy_seconds, lazy.evaluations);
    PrintAtMost("picks that differ from the naive greedy's", lazy.positions == naive ? 0 : 1, 0);
    PrintAtMost("upper bound over F, less one", lazy.upper_bound / lazy.value - 1, 0.05);
  }
}

void TimeStrategies() {
  const kernel::DenseFeatures features(testing::RandomMatrix(kPoolRows, kDims, 3));
  std::vector<ClassIndex> labels(kPoolRows, kUnlabeled);
  for (std::size_t i = 0; i < kPoolLabels; ++i) labels[i * (kPoolRows / kPoolLabels)] = static_cast<ClassIndex>(i % 2);
  const std::vector<double> made_up(kPoolRows, 0.5);
  select::Candidates candidates;
  candidates.features = &features;
  candidates.classifier_kernel = {.sigma = 4};
  candidates.leverage_kernel = {.sigma = 4};
  candidates.class_count = 2;
  candidates.labels = labels;
  candidates.confidence = made_up;
  candidates.pool_leverage = made_up;
  std::printf("\n%zu x %zu pool, %zu labels\n", kPoolRows, kDims, kPoolLabels);
  for (const char* name : {"random", "uncertainty", "lev-on-all", "quire", "nearopt"}) {
    const auto strategy = *select::MakeStrategy(name);
    for (const std::size_t batch : {std::size_t{1}, std::size_t{10}}) {
      candidates.batch = batch;
      const std::string what = std::string(name) + ", batch " + std::to_string(batch);
      double processor_seconds = 0;
      const double seconds = FastestSeconds(
          1, [&] { processor_seconds = FastestCpuSeconds(1, [&] { (void)strategy->Select(candidates); }); });
      std::printf("  %-24s %6.2f processor seconds\n", what.c_str(), processor_seconds);
      if (std::string(name) == "quire") {
        PrintAtMost((what + ", on the clock").c_str(), seconds, 5, "s");
      } else {
        PrintFigure((what + ", on the clock").c_str(), seconds, "s");
      }
    }
  }
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  fulcrum::benchmarks::CompareGreedy(1, "scores up to 1");
  fulcrum::benchmarks::CompareGreedy(1e-3, "scores up to 0.001");
  fulcrum::benchmarks::TimeStrategies();
}
