#include "pipeline/campaign/campaign_pool.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/kernel_features.h"
#include "pipeline/pool_source.h"
#include "stages/classify/svm_predictor.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {
namespace {

bool IsInside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

/// A campaign is specified by whoever may call the server; it reads the files it was given and no others.
absl::StatusOr<std::vector<std::string>> ResolveSources(const std::vector<std::string>& sources,
                                                        const std::string& root) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(root, error);
  if (error)
    return absl::InvalidArgumentError(
        absl::StrCat("the folder of pools '", root, "' cannot be read: ", error.message()));
  std::vector<std::string> resolved;
  for (const std::string& source : sources) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder / source, error);
    if (error || !IsInside(path, folder)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the source '", source, "' is not inside '", folder.string(),
                       "', the folder that this server reads pools from (serve --pools)"));
    }
    resolved.push_back(path.string());
  }
  return resolved;
}

absl::StatusOr<std::vector<ClassIndex>> ClassesOf(const std::vector<std::string>& labels,
                                                  const std::vector<std::string>& classes) {
  std::vector<ClassIndex> indices;
  indices.reserve(labels.size());
  for (const std::string& label : labels) {
    const auto found = std::find(classes.begin(), classes.end(), label);
    if (found == classes.end()) {
      return absl::DataLossError(absl::StrCat("the validation set has the label '", label,
                                              "', which is not one of the campaign's classes (",
                                              absl::StrJoin(classes, ", "), ")"));
    }
    indices.push_back(static_cast<ClassIndex>(found - classes.begin()));
  }
  return indices;
}

ingest::PoolOptions OptionsOf(const CampaignPlan& plan, bool keep_labels) {
  ingest::PoolOptions options;
  options.keep_labels = keep_labels;
  options.columns.id = plan.id_column;
  options.columns.label = plan.label_column;
  options.columns.payload = plan.payload_column;
  options.columns.cost = plan.cost_column;
  options.keep_payloads = true;
  return options;
}

std::size_t BytesOf(const ingest::PoolFeatures& features) {
  if (!features.is_sparse()) return features.rows() * features.cols() * sizeof(double);
  return features.sparse().values.size() * (sizeof(double) + sizeof(int)) + features.rows() * sizeof(int);
}

std::size_t BytesOf(const std::vector<std::string>& texts) {
  std::size_t bytes = texts.size() * sizeof(std::string);
  for (const std::string& text : texts) bytes += text.size();
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CampaignPool>> CampaignPool::Load(const CampaignPlan& plan, const std::string& root) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> sources, ResolveSources(plan.sources, root));
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool pool, LoadAnyPool(sources, OptionsOf(plan, false)));
  FULCRUM_ASSIGN_OR_RETURN(const ingest::Normalizer normalizer,
                           ingest::Normalizer::FitInPlace(plan.normalize, pool.features));
  std::unique_ptr<CampaignPool> loaded(new CampaignPool());
  loaded->ids_ = std::move(pool.ids);
  loaded->payloads_ = std::move(pool.payloads);
  loaded->costs_ = std::move(pool.costs);
  loaded->bytes_ = BytesOf(pool.features) + BytesOf(loaded->payloads_);
  const bool sparse = pool.features.is_sparse();
  loaded->features_ = MakeFeatures(std::move(pool.features));
  if (!plan.validation_sources.empty()) FULCRUM_RETURN_IF_ERROR(loaded->LoadValidation(plan, root, normalizer, sparse));
  return loaded;
}

absl::Status CampaignPool::LoadValidation(const CampaignPlan& plan, const std::string& root,
                                          const ingest::Normalizer& normalizer, bool sparse) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> sources, ResolveSources(plan.validation_sources, root));
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool pool, LoadAnyPool(sources, OptionsOf(plan, true)));
  if (!pool.labels) return absl::DataLossError("the validation set has no column of labels");
  // Text without the pool's last words is as wide as the pool all the same.
  if (pool.features.is_sparse() && pool.features.cols() < features_->dims()) {
    pool.features.sparse().cols = features_->dims();
  }
  if (pool.features.cols() != features_->dims()) {
    return absl::DataLossError(absl::StrCat("the validation set has ", pool.features.cols(), " features and the pool ",
                                            features_->dims(), "; they must be the same columns"));
  }
  if (sparse && pool.features.is_sparse()) {
    // A pool that is still sparse was brought to unit length, or left as it is.
    if (!plan.normalize.empty()) ingest::ScaleRowsToUnit(pool.features.sparse());
  } else if (sparse) {
    return absl::DataLossError("the pool is sparse and the validation set is not; give both in the same form");
  } else {
    pool.features.MakeDense();
    normalizer.Apply(pool.features.dense().view());
  }
  FULCRUM_ASSIGN_OR_RETURN(validation_labels_, ClassesOf(*pool.labels, plan.classes));
  bytes_ += BytesOf(pool.features);
  validation_ = MakeFeatures(std::move(pool.features));
  return absl::OkStatus();
}

std::string CampaignPool::PayloadOf(const std::string& item) const {
  if (payloads_.empty()) return {};
  const auto row = ids_.Find(item);
  return row ? payloads_[*row] : std::string();
}

std::optional<double> CampaignPool::Accuracy(const classify::SvmModel& model) const {
  if (validation_ == nullptr) return std::nullopt;
  const Matrix<double> decisions = classify::DecisionValues(model, *features_, *validation_);
  const std::vector<ClassIndex> predicted = classify::VoteClasses(model, decisions.view());
  std::size_t right = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == validation_labels_[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(predicted.size());
}

}  // namespace fulcrum::pipeline
