#include "pipeline/campaign/model_history.h"

#include <algorithm>
#include <utility>

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
