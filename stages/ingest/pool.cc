#include "stages/ingest/pool.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/pool_builder.h"
#include "stages/ingest/reader_registry.h"

namespace fulcrum::ingest {

std::string Pool::FeatureName(std::size_t feature) const {
  return feature < feature_names.size() ? feature_names[feature] : absl::StrCat(feature + 1);
}

absl::StatusOr<Pool> LoadPool(const std::string& path, const PoolOptions& options) {
  return LoadPool(std::vector<std::string>{path}, options);
}

absl::StatusOr<Pool> LoadPool(const std::vector<std::string>& sources, const PoolOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source,
                           OpenSources(sources, options.columns, options.limits));
  FULCRUM_ASSIGN_OR_RETURN(ColumnRoles roles, AssignRoles(*source->schema(), options.columns, source->path()));
  PoolBuilder builder(*source, std::move(roles), options);
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) return builder.Finish();
    FULCRUM_RETURN_IF_ERROR(builder.Append(*batch));
    if (options.on_progress) options.on_progress(builder.rows());
  }
}

}  // namespace fulcrum::ingest
