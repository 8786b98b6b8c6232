#include "stages/classify/svm_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

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

absl::StatusOr<Matrix<double>> SupportVectors(const SvmModel& model, const kernel::Features& features) {
  if (features.kind() == kernel::FeatureKind::kInnerProducts) {
    return absl::UnimplementedError(
        "only the inner products of the features are known, so the model cannot be written to a file");
  }
  return features.Pack(model.support_rows).ToDense();
}

namespace {

bool PositiveAndFinite(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

absl::Status ValidateSvmParameters(const SvmParameters& parameters) {
  FULCRUM_RETURN_IF_ERROR(kernel::ValidateKernel(parameters.kernel));
  if (!PositiveAndFinite(parameters.c)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the SVM's C is ", parameters.c, "; give a positive finite number (1 is the usual choice)"));
  }
  if (!PositiveAndFinite(parameters.tolerance)) {
    return absl::InvalidArgumentError(absl::StrCat("the SVM's tolerance is ", parameters.tolerance,
                                                   "; give a positive finite number (0.001 is the usual choice)"));
  }
  for (std::size_t i = 0; i < parameters.class_weights.size(); ++i) {
    if (PositiveAndFinite(parameters.class_weights[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("the SVM's weight of class ", i, " is ", parameters.class_weights[i],
                                                   "; give a positive finite number (1 leaves the class as it is)"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSvmParameters(const SvmParameters& parameters, std::size_t class_count) {
  FULCRUM_RETURN_IF_ERROR(ValidateSvmParameters(parameters));
  const std::size_t weights = parameters.class_weights.size();
  if (weights != 0 && weights != class_count) {
    return absl::InvalidArgumentError(absl::StrCat("the SVM has ", weights, " class weights but there are ",
                                                   class_count, " classes; give one weight per class, or none"));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::classify
