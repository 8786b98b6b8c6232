#include "tests/unit/stages/classify/libsvm_oracle.h"

#include <algorithm>
#include <numeric>

namespace fulcrum::classify {
namespace {

svm_parameter ToLibsvm(const SvmParameters& parameters, bool probabilities) {
  svm_parameter result{};
  result.svm_type = C_SVC;
  switch (parameters.kernel.type) {
    case kernel::KernelType::kRbf:
      result.kernel_type = RBF;
      result.gamma = 1 / (parameters.kernel.sigma * parameters.kernel.sigma);
      break;
    case kernel::KernelType::kPoly:
      result.kernel_type = POLY;
      result.gamma = 1;
      result.coef0 = parameters.kernel.offset;
      result.degree = parameters.kernel.degree;
      break;
    default:
      result.kernel_type = LINEAR;
  }
  result.cache_size = 400;
  result.eps = parameters.tolerance;
  result.C = parameters.c;
  result.shrinking = parameters.shrinking ? 1 : 0;
  result.probability = probabilities ? 1 : 0;
  return result;
}

}  // namespace

void LibsvmOracle::Delete::operator()(svm_model* model) const {
  svm_free_and_destroy_model(&model);
}

std::vector<svm_node> LibsvmOracle::ToNodes(std::span<const double> x) {
  std::vector<svm_node> nodes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != 0) nodes.push_back({static_cast<int>(i + 1), x[i]});
  }
  nodes.push_back({-1, 0});
  return nodes;
}

LibsvmOracle LibsvmOracle::Train(const SvmParameters& parameters, ConstMatrixView features,
                                 std::span<const ClassIndex> labels, bool probabilities) {
  svm_set_print_string_function([](const char*) {});
  LibsvmOracle oracle;
  oracle.total_rows_ = labels.size();
  std::vector<double> y;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kUnlabeled) continue;
    oracle.nodes_.push_back(ToNodes(features.row(row)));
    oracle.rows_.push_back(row);
    y.push_back(labels[row]);
  }
  std::vector<svm_node*> rows;
  for (auto& nodes : oracle.nodes_) rows.push_back(nodes.data());
  svm_parameter settings = ToLibsvm(parameters, probabilities);
  std::vector<double> weights = parameters.class_weights;
  std::vector<int> weight_labels(weights.size());
  std::iota(weight_labels.begin(), weight_labels.end(), 0);
  settings.nr_weight = static_cast<int>(weights.size());
  settings.weight = weights.data();
  settings.weight_label = weight_labels.data();
  const svm_problem problem{static_cast<int>(y.size()), y.data(), rows.data()};
  oracle.model_.reset(svm_train(&problem, &settings));
  return oracle;
}

LibsvmOracle LibsvmOracle::Load(const std::string& path) {
  LibsvmOracle oracle;
  oracle.model_.reset(svm_load_model(path.c_str()));
  return oracle;
}

std::size_t LibsvmOracle::class_count() const {
  return static_cast<std::size_t>(model_->nr_class);
}
std::size_t LibsvmOracle::support_count() const {
  return static_cast<std::size_t>(model_->l);
}

/// LIBSVM orders classes by their first appearance.
std::vector<std::size_t> LibsvmOracle::SlotsByLabel() const {
  std::vector<std::size_t> slots(class_count());
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::sort(slots.begin(), slots.end(),
            [&](std::size_t a, std::size_t b) { return model_->label[a] < model_->label[b]; });
  return slots;
}

std::vector<double> LibsvmOracle::Decisions(std::span<const double> x) const {
  const std::size_t classes = class_count();
  std::vector<double> own(classes * (classes - 1) / 2);
  svm_predict_values(model_.get(), ToNodes(x).data(), own.data());
  Matrix<double> by_slot = Matrix<double>::Zero(classes, classes);
  std::size_t p = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j, ++p) {
      by_slot(i, j) = own[p];
      by_slot(j, i) = -own[p];
    }
  }
  const std::vector<std::size_t> slots = SlotsByLabel();
  std::vector<double> decisions;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j) decisions.push_back(by_slot(slots[i], slots[j]));
  }
  return decisions;
}

int LibsvmOracle::Predict(std::span<const double> x) const {
  return static_cast<int>(svm_predict(model_.get(), ToNodes(x).data()));
}

std::vector<double> LibsvmOracle::Probabilities(std::span<const double> x) const {
  std::vector<double> own(class_count()), probabilities;
  svm_predict_probability(model_.get(), ToNodes(x).data(), own.data());
  for (std::size_t slot : SlotsByLabel()) probabilities.push_back(own[slot]);
  return probabilities;
}

std::vector<double> LibsvmOracle::SignedMultipliers() const {
  std::vector<double> multipliers(total_rows_, 0);
  const double sign = model_->label[0] < model_->label[1] ? 1 : -1;
  for (std::size_t s = 0; s < support_count(); ++s) {
    const auto trained = static_cast<std::size_t>(model_->sv_indices[s] - 1);
    multipliers[rows_[trained]] = sign * model_->sv_coef[0][s];
  }
  return multipliers;
}

}  // namespace fulcrum::classify
