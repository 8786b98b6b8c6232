#include "pipeline/experiment/metrics.h"

#include <cassert>

namespace fulcrum::pipeline {

double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth) {
  assert(predicted.size() == truth.size());
  std::size_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += predicted[i] == truth[i] ? 1 : 0;
  return truth.empty() ? 0 : static_cast<double>(right) / static_cast<double>(truth.size());
}

double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive) {
  assert(predicted.size() == truth.size());
  std::size_t hits = 0, mistakes = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool said = predicted[i] == positive, is = truth[i] == positive;
    hits += said && is ? 1 : 0;
    mistakes += said != is ? 1 : 0;
  }
  const double weight = 2 * static_cast<double>(hits);
  return hits + mistakes == 0 ? 0 : weight / (weight + static_cast<double>(mistakes));
}

}  // namespace fulcrum::pipeline
