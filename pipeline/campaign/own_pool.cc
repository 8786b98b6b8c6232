#include "pipeline/campaign/own_pool.h"

#include <vector>

#include "pipeline/campaign/pool_sources.h"
#include "pipeline/pool_import.h"
#include "pipeline/pool_source.h"
#include "stages/core/status_macros.h"
#include "storage/pool/pool_copy.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
namespace {

absl::Status ImportSources(const std::vector<std::string>& named, const CampaignPlan& plan, const std::string& root,
                           const std::string& folder) {
  if (named.empty() || storage::IsPoolFolder(folder)) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> sources, ResolvePoolSources(named, root));
  if (sources.size() == 1 && storage::IsPoolFolder(sources[0])) {
    FULCRUM_RETURN_IF_ERROR(CheckNoColumnsAreNamed(sources[0], ColumnsOf(plan)));
    return storage::CopyPool(sources[0], folder);
  }
  ImportOptions options;
  options.sources = sources;
  options.folder = folder;
  options.columns = ColumnsOf(plan);
  options.max_rejected_share = 0;
  options.keep_reasons = false;
  return ImportPool(options).status();
}

}  // namespace

ingest::ColumnOptions ColumnsOf(const CampaignPlan& plan) {
  return {.id = plan.id_column, .label = plan.label_column, .cost = plan.cost_column, .payload = plan.payload_column};
}

absl::Status ImportOwnPool(const CampaignPlan& plan, const std::string& root, const storage::CampaignFolder& folder) {
  FULCRUM_RETURN_IF_ERROR(ImportSources(plan.sources, plan, root, folder.imported_pool()));
  return ImportSources(plan.validation_sources, plan, root, folder.validation_pool());
}

}  // namespace fulcrum::pipeline
