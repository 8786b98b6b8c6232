#include "tests/unit/stages/select/greedy/set_function_reference.h"

#include <algorithm>
#include <cmath>

namespace fulcrum::select {
namespace {

std::vector<std::size_t> UnlabeledPositions(const GreedyProblem& problem) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    if (std::find(problem.labeled.begin(), problem.labeled.end(), i) == problem.labeled.end()) positions.push_back(i);
  }
  return positions;
}

std::vector<std::size_t> LabeledByRow(const GreedyProblem& problem) {
  std::vector<std::size_t> labeled(problem.labeled.begin(), problem.labeled.end());
  std::sort(labeled.begin(), labeled.end(),
            [&](std::size_t a, std::size_t b) { return problem.rows[a] < problem.rows[b]; });
  return labeled;
}

}  // namespace

double ReferenceValue(const GreedyProblem& problem, const std::vector<std::size_t>& set, std::size_t capacity) {
  double value = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    value += problem.scores[set[i]] + 1;
    for (std::size_t j = 0; j < i; ++j) {
      value -= problem.alpha / static_cast<double>(capacity) * problem.kernel(set[i], set[j]);
    }
  }
  return value;
}

std::vector<std::size_t> ReferenceGreedy(const GreedyProblem& problem) {
  std::vector<std::size_t> open = UnlabeledPositions(problem);
  std::vector<std::size_t> set = LabeledByRow(problem);
  const std::size_t batch = std::min(problem.batch, open.size());
  const double factor = problem.alpha / static_cast<double>(set.size() + batch);
  std::vector<std::size_t> chosen;
  while (chosen.size() < batch) {
    std::size_t best = open.size();
    double best_gain = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      double similarity = 0;
      for (const std::size_t other : set) similarity += problem.kernel(open[i], other);
      const double gain = std::fma(-factor, similarity, problem.scores[open[i]] + 1);
      const bool first = best == open.size();
      if (first || gain > best_gain || (gain == best_gain && problem.rows[open[i]] < problem.rows[open[best]])) {
        best = i;
        best_gain = gain;
      }
    }
    chosen.push_back(open[best]);
    set.push_back(open[best]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return chosen;
}

double ReferenceBest(const GreedyProblem& problem) {
  const std::vector<std::size_t> open = UnlabeledPositions(problem);
  const std::vector<std::size_t> labeled = LabeledByRow(problem);
  const std::size_t batch = std::min(problem.batch, open.size());
  std::vector<bool> in_batch(open.size(), false);
  std::fill_n(in_batch.begin(), batch, true);
  double best = 0;
  do {
    std::vector<std::size_t> set = labeled;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (in_batch[i]) set.push_back(open[i]);
    }
    best = std::max(best, ReferenceValue(problem, set, set.size()));
  } while (std::prev_permutation(in_batch.begin(), in_batch.end()));
  return best;
}

}  // namespace fulcrum::select
