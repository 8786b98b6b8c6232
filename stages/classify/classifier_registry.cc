#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "stages/classify/classifier.h"
#include "stages/core/status_macros.h"

namespace fulcrum::classify {
namespace {

constexpr ClassifierEntry kClassifiers[] = {
    {"svm", "support vector machine, one against one", MakeSvm, ScoreWithSvm, 2},
    {"logistic", "logistic regression with the kernel, softmax over the classes", MakeLogistic, ScoreWithLogistic, 1},
};

}  // namespace

std::span<const ClassifierEntry> Classifiers() {
  return kClassifiers;
}

absl::StatusOr<const ClassifierEntry*> FindClassifier(std::string_view name) {
  const auto* const found = std::ranges::find(kClassifiers, name, &ClassifierEntry::name);
  if (found != std::end(kClassifiers)) return found;
  std::string names;
  for (const ClassifierEntry& entry : kClassifiers)
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(entry.name));
  return absl::InvalidArgumentError(
      absl::StrCat("there is no classifier '", std::string(name), "'; choose one of ", names));
}

std::unique_ptr<Classifier> MakeClassifier(const SvmParameters& parameters, const kernel::Features& features) {
  const auto entry = FindClassifier(parameters.classifier);
  return (entry.ok() ? **entry : kClassifiers[0]).make(parameters, features);
}

absl::StatusOr<std::vector<ClassIndex>> CheckTraining(const SvmParameters& parameters, const kernel::Features& features,
                                                      std::span<const ClassIndex> labels, std::size_t class_count) {
  FULCRUM_RETURN_IF_ERROR(FindClassifier(parameters.classifier).status());
  FULCRUM_RETURN_IF_ERROR(ValidateSvmParameters(parameters, class_count));
  if (labels.size() != features.rows()) {
    return absl::InvalidArgumentError(absl::StrCat("the classifier was given ", labels.size(), " labels for a pool of ",
                                                   features.rows(),
                                                   " rows; give one entry per row, -1 if there is no label"));
  }
  std::vector<std::size_t> counts(class_count, 0);
  RowList labeled;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kUnlabeled) continue;
    if (labels[row] < 0 || static_cast<std::size_t>(labels[row]) >= class_count) {
      return absl::InvalidArgumentError(absl::StrCat("row ", row, " has class ", labels[row], ", but there are ",
                                                     class_count, " classes, counted from 0"));
    }
    ++counts[static_cast<std::size_t>(labels[row])];
    labeled.push_back(static_cast<RowIndex>(row));
  }
  std::vector<ClassIndex> classes;
  for (std::size_t i = 0; i < class_count; ++i) {
    if (counts[i] > 0) classes.push_back(static_cast<ClassIndex>(i));
  }
  if (classes.size() < 2) {
    return absl::FailedPreconditionError(absl::StrCat("a classifier needs labels of at least two classes, but ",
                                                      classes.size(), " of ", class_count,
                                                      " classes have any; label examples of another class first"));
  }
  // The solvers would continue with values that are not finite.
  FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(parameters.kernel, features.squared_norms(), labeled));
  return classes;
}

}  // namespace fulcrum::classify
