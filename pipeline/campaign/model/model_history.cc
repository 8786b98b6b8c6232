#include <utility>

#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/stored_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

absl::StatusOr<ModelHistory> ModelHistory::Read(const std::vector<storage::StoredModel>& models) {
  ModelHistory history;
  for (const storage::StoredModel& stored : models) {
    v1::ModelTrained model;
    if (!stored.record.empty()) FULCRUM_RETURN_IF_ERROR(ParseStoredText(stored.record, model));
    model.set_round(stored.round);
    history.Add(model);
  }
  return history;
}

std::vector<ModelScore> ModelHistory::ScoresThrough(std::int64_t round) const {
  std::vector<ModelScore> scores;
  for (const auto& [number, model] : models_) {
    if (number > round) break;
    ModelScore score{.changed_share = model.changed_share()};
    if (model.has_accuracy()) score.accuracy = model.accuracy();
    scores.push_back(score);
  }
  return scores;
}

namespace {

// Settings that a classifier chose, to and from the record of a model.

v1::ClassifierTuning::Choice ToProto(const ClassifierChoice& choice) {
  v1::ClassifierTuning::Choice proto;
  proto.set_normalize(choice.normalize);
  proto.set_classifier(choice.classifier);
  const bool linear = choice.kernel.type == kernel::KernelType::kLinear;
  proto.mutable_kernel()->set_type(linear ? v1::KernelSpec::TYPE_LINEAR : v1::KernelSpec::TYPE_RBF);
  if (!linear) proto.mutable_kernel()->set_sigma(choice.kernel.sigma);
  proto.set_c(choice.c);
  for (const double weight : choice.class_weights) proto.add_class_weights(weight);
  proto.set_log_loss(choice.log_loss);
  proto.set_accuracy(choice.accuracy);
  return proto;
}

ClassifierChoice FromProto(const v1::ClassifierTuning::Choice& proto) {
  ClassifierChoice choice;
  choice.normalize = proto.normalize();
  // Records of older programs have no name: there was only the SVM.
  if (!proto.classifier().empty()) choice.classifier = proto.classifier();
  choice.kernel.type =
      proto.kernel().type() == v1::KernelSpec::TYPE_LINEAR ? kernel::KernelType::kLinear : kernel::KernelType::kRbf;
  if (proto.kernel().has_sigma()) choice.kernel.sigma = proto.kernel().sigma();
  choice.c = proto.c();
  choice.class_weights.assign(proto.class_weights().begin(), proto.class_weights().end());
  choice.log_loss = proto.log_loss();
  choice.accuracy = proto.accuracy();
  return choice;
}

}  // namespace

v1::ClassifierTuning ToProto(const TunedSettings& settings) {
  v1::ClassifierTuning proto;
  *proto.mutable_chosen() = ToProto(settings.chosen);
  for (const ClassifierChoice& choice : settings.runners_up) *proto.add_runners_up() = ToProto(choice);
  proto.set_labels(static_cast<std::int64_t>(settings.labels));
  proto.set_classes(static_cast<std::int32_t>(settings.classes));
  proto.set_leverage_sigma(settings.leverage_kernel.sigma);
  proto.set_reason(settings.reason);
  return proto;
}

std::shared_ptr<const TunedSettings> TuningFrom(const v1::ClassifierTuning& tuning) {
  auto settings = std::make_shared<TunedSettings>();
  settings->chosen = FromProto(tuning.chosen());
  for (const auto& choice : tuning.runners_up()) settings->runners_up.push_back(FromProto(choice));
  settings->labels = static_cast<std::size_t>(tuning.labels());
  settings->classes = static_cast<std::size_t>(tuning.classes());
  settings->leverage_kernel.sigma = tuning.leverage_sigma();
  settings->reason = tuning.reason();
  return settings;
}

std::int64_t ModelHistory::FeaturesRoundBefore(std::int64_t round) const {
  const auto after = models_.lower_bound(round);
  return after == models_.begin() ? 0 : std::prev(after)->second.features_round();
}

std::shared_ptr<const TunedSettings> ModelHistory::TuningBefore(std::int64_t round) const {
  const auto after = models_.lower_bound(round);
  if (after == models_.begin()) return nullptr;
  const v1::ModelTrained& model = std::prev(after)->second;
  return model.has_tuning() ? TuningFrom(model.tuning()) : nullptr;
}

v1::RoundEffort ModelHistory::EffortOf(std::int64_t round, const RoundResult& result, double seconds) const {
  v1::RoundEffort effort;
  for (const auto& [number, model] : models_) {
    if (number >= round) break;
    if (model.warm()) continue;
    effort.set_cold_solver_iterations(model.effort().solver_iterations());
    effort.set_cold_eigen_products(model.effort().eigen_products());
    effort.set_cold_seconds(model.effort().seconds());
  }
  if (result.svm) {
    const auto all = static_cast<std::int64_t>(result.svm->support_vectors);
    const auto computed = static_cast<std::int64_t>(result.svm->decision_columns_computed);
    effort.set_solver_iterations(static_cast<std::int64_t>(result.svm->iterations));
    effort.set_kernel_columns_computed(computed);
    effort.set_kernel_columns_kept(std::max<std::int64_t>(all - computed, 0));
  }
  for (const ClassReport& group : result.classes) {
    effort.set_eigen_products(effort.eigen_products() + static_cast<std::int64_t>(group.products));
    effort.set_warm_eigensolvers(effort.warm_eigensolvers() + (group.warm ? 1 : 0));
  }
  effort.set_seconds(seconds);
  return effort;
}

}  // namespace fulcrum::pipeline
