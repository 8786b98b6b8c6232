#include "stages/classify/pair_problem.h"

#include <algorithm>
#include <numeric>

namespace fulcrum::classify {
namespace {

double BoundOf(const SvmParameters& parameters, ClassIndex class_index) {
  if (parameters.class_weights.empty()) return parameters.c;
  return parameters.c * parameters.class_weights[static_cast<std::size_t>(class_index)];
}

}  // namespace

PairProblem MakePairProblem(ClassIndex first, ClassIndex second, const kernel::RowSetKernel& gram,
                            std::span<const ClassIndex> labels, const SvmParameters& parameters) {
  PairProblem pair;
  pair.first = first;
  pair.second = second;
  const double bounds[] = {BoundOf(parameters, first), BoundOf(parameters, second)};
  for (std::uint32_t position = 0; position < gram.rows().size(); ++position) {
    const RowIndex row = gram.rows()[position];
    const bool is_first = labels[row] == first;
    if (!is_first && labels[row] != second) continue;
    pair.positions.push_back(position);
    pair.rows.push_back(row);
    pair.y.push_back(is_first ? 1 : -1);
    pair.c.push_back(bounds[is_first ? 0 : 1]);
  }
  return pair;
}

std::vector<std::uint32_t> ExamplesByRow(const PairProblem& pair) {
  std::vector<std::uint32_t> examples(pair.rows.size());
  std::iota(examples.begin(), examples.end(), 0u);
  std::sort(examples.begin(), examples.end(),
            [&](std::uint32_t a, std::uint32_t b) { return pair.rows[a] < pair.rows[b]; });
  return examples;
}

}  // namespace fulcrum::classify
