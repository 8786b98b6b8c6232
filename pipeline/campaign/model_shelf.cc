#include "pipeline/campaign/model_shelf.h"

#include <utility>

#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/round_rules.h"

namespace fulcrum::pipeline {

absl::StatusOr<storage::StoredModel> ModelShelf::Find(std::int64_t round) {
  return store_.Run(storage::FindModel, {.round = round});
}

absl::StatusOr<std::string> ModelShelf::ReadBytes(const storage::StoredModel& stored) const {
  return storage::ReadModelFile(store_.folder(), stored);
}

absl::StatusOr<std::shared_ptr<const ShelvedModel>> ModelShelf::Load(std::int64_t round) {
  FULCRUM_ASSIGN_OR_RETURN(storage::StoredModel stored, Find(round));
  {
    const std::scoped_lock lock(mutex_);
    if (last_ != nullptr && last_->stored.sequence == stored.sequence) return last_;
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(stored));
  FULCRUM_ASSIGN_OR_RETURN(classify::SavedSvm svm, classify::ParseSvm(bytes));
  const auto model = std::make_shared<const ShelvedModel>(ShelvedModel{std::move(stored), std::move(svm)});
  const std::scoped_lock lock(mutex_);
  last_ = model;
  return model;
}

}  // namespace fulcrum::pipeline
