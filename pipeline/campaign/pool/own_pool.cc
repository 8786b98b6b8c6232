#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_store.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_manifest.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::pipeline {
namespace {

/// Sources as paths. Uploads stay while it lives.
struct ResolvedSources {
  std::vector<std::string> paths = {};
  std::vector<UploadedFile> uploads = {};

  /// What is wrong with a path here is wrong with a file that its owner knows by another name.
  absl::Status Explained(const absl::Status& status) const {
    std::string message(status.message());
    for (const UploadedFile& upload : uploads) {
      message = absl::StrReplaceAll(message, {{upload.path, upload.file_name}});
    }
    return absl::Status(status.code(), message);
  }
};

absl::StatusOr<ResolvedSources> Resolve(const std::vector<std::string>& named, const PoolPlaces& places) {
  ResolvedSources resolved;
  for (const std::string& source : named) {
    const std::string id = UploadIdOf(source);
    if (id.empty() || places.uploads == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(const auto paths, ResolvePoolSources({source}, places.root));
      resolved.paths.push_back(paths[0]);
    } else {
      FULCRUM_ASSIGN_OR_RETURN(UploadedFile upload, places.uploads->Use(id));
      resolved.paths.push_back(upload.path);
      resolved.uploads.push_back(std::move(upload));
    }
  }
  return resolved;
}

absl::Status ImportSources(const std::vector<std::string>& named, const CampaignPlan& plan, const PoolPlaces& places,
                           const std::string& folder, bool is_validation, const ImportControl& control) {
  if (named.empty() || storage::IsPoolFolder(folder)) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const ResolvedSources resolved, Resolve(named, places));
  const std::vector<std::string>& sources = resolved.paths;
  if (sources.size() == 1 && storage::IsPoolFolder(sources[0])) {
    FULCRUM_RETURN_IF_ERROR(CheckNoColumnsAreNamed(sources[0], ColumnsOf(plan)));
    return storage::CopyPool(sources[0], folder);
  }
  ImportOptions options;
  options.sources = sources;
  options.folder = folder;
  options.columns = ColumnsOf(plan);
  options.columns.roles_may_be_missing = is_validation;
  options.max_rejected_share = 0;
  options.keep_reasons = false;
  options.control = control;
  const absl::Status imported = ImportPool(options).status();
  return imported.ok() ? imported : resolved.Explained(imported);
}

}  // namespace

ingest::ColumnOptions ColumnsOf(const CampaignPlan& plan) {
  return {.id = plan.id_column,
          .label = plan.label_column,
          .cost = plan.cost_column,
          .payload = plan.payload_column,
          .ignored = plan.ignored_columns};
}

absl::Status CheckIdLengths(const ingest::RowIds& ids, std::size_t first) {
  if (ids.are_row_numbers()) return absl::OkStatus();
  for (std::size_t row = first; row < ids.size(); ++row) {
    const std::string id = ids.TextOf(static_cast<RowIndex>(row));
    if (id.size() <= storage::kMostTextBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("the id of row ", row - first, ", '", id.substr(0, 40), "...', has ",
                                                   id.size(), " bytes; at most ", storage::kMostTextBytes,
                                                   " are allowed in a campaign"));
  }
  return absl::OkStatus();
}

absl::Status ImportOwnPool(const CampaignPlan& plan, const PoolPlaces& places, const storage::CampaignFolder& folder,
                           const ImportControl& control) {
  const bool imported = storage::IsPoolFolder(folder.imported_pool());
  FULCRUM_RETURN_IF_ERROR(
      ImportSources(plan.sources, plan, places, folder.imported_pool(), /*is_validation=*/false, control));
  if (!imported) {
    FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(folder.imported_pool()));
    FULCRUM_ASSIGN_OR_RETURN(const ingest::RowIds ids, pool.Ids());
    FULCRUM_RETURN_IF_ERROR(CheckIdLengths(ids, 0));
  }
  FULCRUM_RETURN_IF_ERROR(ImportSources(plan.validation_sources, plan, places, folder.validation_pool(),
                                        /*is_validation=*/true, {.stop = control.stop}));
  return control.stop.stop_requested() ? absl::CancelledError("the import was cancelled") : absl::OkStatus();
}

namespace {

namespace fs = std::filesystem;

// A dot cannot be part of a campaign's name.
constexpr char kUnfinished[] = ".unfinished";

}  // namespace

absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const PoolPlaces& places,
                                const ImportControl& control) {
  std::error_code error;
  if (fs::exists(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat("'", folder, "' exists already; choose another name"));
  }
  if (!plan.watch.empty()) FULCRUM_RETURN_IF_ERROR(ResolveWatchedFolder({plan.name, plan.watch, places.root}).status());
  const storage::CampaignFolder unfinished(absl::StrCat(folder, kUnfinished));
  fs::remove_all(unfinished.path(), error);
  const absl::Cleanup remove_unfinished = [&] { fs::remove_all(unfinished.path(), error); };
  FULCRUM_RETURN_IF_ERROR(unfinished.Create());
  FULCRUM_RETURN_IF_ERROR(ImportOwnPool(plan, places, unfinished, control));
  FULCRUM_RETURN_IF_ERROR(storage::CampaignStore::Create(unfinished.path(), plan.settings).status());
  fs::rename(unfinished.path(), folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot put '", folder, "' in its place: ", error.message()));
  return SyncFolder(fs::path(folder).parent_path().string());
}

void RemoveUnfinishedCampaigns(const std::string& campaigns_folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(campaigns_folder, error)) {
    if (entry.path().extension() == kUnfinished) fs::remove_all(entry.path(), error);
  }
}

}  // namespace fulcrum::pipeline
