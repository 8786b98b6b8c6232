#include "pipeline/pool_source.h"

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
absl::Status CheckNoColumnsAreNamed(const std::string& path, const ingest::ColumnOptions& columns) {
  const bool named = !columns.id.empty() || !columns.label.empty() || !columns.cost.empty() ||
                     !columns.payload.empty() || !columns.features.empty();
  if (!named) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", path, "' is an imported pool: what its columns mean was said at ",
                                                 "the import; leave --id, --label, --cost, --payload and --features "
                                                 "out"));
}

absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options) {
  if (!storage::IsPoolFolder(path)) return ingest::LoadPool(path, options);
  FULCRUM_RETURN_IF_ERROR(CheckNoColumnsAreNamed(path, options.columns));
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(path));
  return pool.Load(options.keep_labels, options.keep_payloads);
}

}  // namespace fulcrum::pipeline
