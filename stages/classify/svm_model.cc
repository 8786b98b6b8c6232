#include "stages/classify/svm_model.h"

#include <algorithm>

namespace fulcrum::classify {

bool SvmModel::has_probabilities() const {
  return !pairs.empty() && std::all_of(pairs.begin(), pairs.end(), [](const SvmPair& pair) { return pair.has_platt; });
}

double SvmModel::objective() const {
  double sum = 0;
  for (const SvmPair& pair : pairs) sum += pair.objective;
  return sum;
}

std::size_t SvmModel::iterations() const {
  std::size_t sum = 0;
  for (const SvmPair& pair : pairs) sum += pair.iterations;
  return sum;
}

bool SvmModel::converged() const {
  return std::all_of(pairs.begin(), pairs.end(), [](const SvmPair& pair) { return pair.converged; });
}

std::vector<ClassIndex> SvmModel::classes_present() const {
  return ClassesOf(pairs);
}

SvmModel SvmModel::Clone() const {
  return {class_count, kernel, pairs, support_rows, coefficients.Clone()};
}

std::vector<ClassIndex> ClassesOf(std::span<const SvmPair> pairs) {
  std::vector<ClassIndex> classes;
  for (const SvmPair& pair : pairs) classes.insert(classes.end(), {pair.first, pair.second});
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

}  // namespace fulcrum::classify
