#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/classify/model_file.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::classify {
namespace {

absl::Status CheckExportable(const SvmModel& model, std::span<const int> class_labels) {
  // Normalising rbf or cosine has no effect: their diagonal is one.
  const bool changed_by_normalizing =
      model.kernel.type == kernel::KernelType::kLinear || model.kernel.type == kernel::KernelType::kPoly;
  if (model.kernel.normalize && changed_by_normalizing) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel ", kernel::DescribeKernel(model.kernel),
                                                   " is normalised, which LIBSVM's model format cannot express; train "
                                                   "without normalising the kernel to export a model"));
  }
  if (!class_labels.empty() && class_labels.size() != model.class_count) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", class_labels.size(), " labels for ", model.class_count,
                                                   " classes; give one per class, or none"));
  }
  return absl::OkStatus();
}

std::string FormatKernel(const kernel::KernelFunction& kernel) {
  switch (kernel.type) {
    case kernel::KernelType::kRbf:
      return absl::StrFormat("kernel_type rbf\ngamma %.17g\n", 1 / (kernel.sigma * kernel.sigma));
    case kernel::KernelType::kPoly:
      return absl::StrFormat("kernel_type polynomial\ndegree %d\ngamma 1\ncoef0 %.17g\n", kernel.degree, kernel.offset);
    case kernel::KernelType::kLinear:
    case kernel::KernelType::kCosine:
    case kernel::KernelType::kSquaredDistance:  // of no model
      break;
  }
  return "kernel_type linear\n";
}

/// Groups support vectors by class. In LIBSVM's format a vector has coefficients only for the pairs of its own class.
/// That of an SVM has no others: a positive coefficient belongs to the first class of the pair. One of logistic
/// regression has them for all pairs, and is listed under the first class of every pair.
class SupportByClass {
 public:
  explicit SupportByClass(const SvmModel& model) : model_(model), by_class_(model.class_count) {
    for (std::size_t s = 0; s < model.support_rows.size(); ++s) {
      const ClassIndex owner = OwnerOf(s);
      shared_ = shared_ || !HasOnlyPairsOf(owner, s);
      by_class_[static_cast<std::size_t>(owner)].push_back(s);
    }
    if (!shared_) return;
    for (auto& members : by_class_) members.clear();
    for (std::size_t s = 0; s < model.support_rows.size(); ++s) {
      ClassIndex listed = kUnlabeled;  // pairs are ordered by their first class
      for (const SvmPair& pair : model.pairs) {
        if (std::exchange(listed, pair.first) != pair.first)
          by_class_[static_cast<std::size_t>(pair.first)].push_back(s);
      }
    }
  }

  const std::vector<std::size_t>& Of(ClassIndex index) const { return by_class_[static_cast<std::size_t>(index)]; }
  std::size_t total() const {
    return std::accumulate(by_class_.begin(), by_class_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& members) { return sum + members.size(); });
  }

  /// A line in LIBSVM's format: the coefficients for each of the other classes, in order, then the features.
  void AppendCoefficients(std::size_t support, ClassIndex owner, std::string& text) const {
    for (std::size_t p = 0; p < model_.pairs.size(); ++p) {
      const SvmPair& pair = model_.pairs[p];
      if (pair.first != owner && pair.second != owner) continue;
      const bool elsewhere = shared_ && pair.first != owner;
      absl::StrAppendFormat(&text, "%.17g ", elsewhere ? 0.0 : model_.coefficients(support, p));
    }
  }

 private:
  ClassIndex OwnerOf(std::size_t support) const {
    for (std::size_t p = 0; p < model_.pairs.size(); ++p) {
      const double coefficient = model_.coefficients(support, p);
      if (coefficient != 0) return coefficient > 0 ? model_.pairs[p].first : model_.pairs[p].second;
    }
    return model_.pairs.front().first;  // a vector without weight may be anywhere
  }

  bool HasOnlyPairsOf(ClassIndex owner, std::size_t support) const {
    for (std::size_t p = 0; p < model_.pairs.size(); ++p) {
      const SvmPair& pair = model_.pairs[p];
      if (model_.coefficients(support, p) != 0 && pair.first != owner && pair.second != owner) return false;
    }
    return true;
  }

  const SvmModel& model_;
  std::vector<std::vector<std::size_t>> by_class_;
  bool shared_ = false;
};

void AppendFeatures(std::span<const double> features, double divisor, std::string& text) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i] != 0) absl::StrAppendFormat(&text, "%d:%.17g ", i + 1, features[i] / divisor);
  }
  text += '\n';
}

std::string FormatHeader(const SvmModel& model, std::span<const int> class_labels, const SupportByClass& by_class) {
  const std::vector<ClassIndex> classes = model.classes_present();
  std::string text = absl::StrCat("svm_type c_svc\n", FormatKernel(model.kernel), "nr_class ", classes.size(),
                                  "\ntotal_sv ", by_class.total(), "\nrho");
  for (const SvmPair& pair : model.pairs) absl::StrAppendFormat(&text, " %.17g", pair.rho);
  text += "\nlabel";
  for (ClassIndex c : classes) {
    absl::StrAppend(&text, " ", class_labels.empty() ? c : class_labels[static_cast<std::size_t>(c)]);
  }
  if (model.has_probabilities()) {
    text += "\nprobA";
    for (const SvmPair& pair : model.pairs) absl::StrAppendFormat(&text, " %.17g", pair.platt.a);
    text += "\nprobB";
    for (const SvmPair& pair : model.pairs) absl::StrAppendFormat(&text, " %.17g", pair.platt.b);
  }
  text += "\nnr_sv";
  for (ClassIndex c : classes) absl::StrAppend(&text, " ", by_class.Of(c).size());
  return text + "\nSV\n";
}

}  // namespace

absl::StatusOr<std::string> FormatLibsvmModel(const SvmModel& model, const kernel::Features& support_features,
                                              std::span<const int> class_labels) {
  FULCRUM_RETURN_IF_ERROR(CheckExportable(model, class_labels));
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> values, SupportVectors(model, support_features));
  const SupportByClass by_class(model);
  std::string text = FormatHeader(model, class_labels, by_class);
  for (const ClassIndex c : model.classes_present()) {
    for (const std::size_t support : by_class.Of(c)) {
      const RowIndex row = model.support_rows[support];
      const double norm = support_features.squared_norms()[row];
      const bool unit_rows = model.kernel.type == kernel::KernelType::kCosine && norm > 0;
      by_class.AppendCoefficients(support, c, text);
      AppendFeatures(values.row(support), unit_rows ? std::sqrt(norm) : 1, text);
    }
  }
  return text;
}

absl::Status ExportLibsvmModel(const SvmModel& model, const kernel::Features& support_features, const std::string& path,
                               std::span<const int> class_labels) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, FormatLibsvmModel(model, support_features, class_labels));
  return ReplaceFile(path, text);
}

}  // namespace fulcrum::classify
