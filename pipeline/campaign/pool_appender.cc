#include "pipeline/campaign/pool_appender.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/pool_import.h"
#include "stages/core/status_macros.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_writer.h"
#include "storage/pool_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{512} << 20;

/// None where rows have no ids: each that comes is a new one.
absl::StatusOr<storage::KnownRows> RowsOf(const CampaignPool& pool) {
  storage::KnownRows known;
  if (pool.ids().are_row_numbers()) return known;
  for (const std::string& folder : pool.folders()) {
    FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool imported, storage::MappedPool::Open(folder));
    FULCRUM_RETURN_IF_ERROR(storage::NoteRows(imported, known));
  }
  return known;
}

absl::Status CheckShape(const CampaignPool& pool, const storage::PoolShape& shape,
                        const std::vector<std::string>& names) {
  if (shape.has_id && pool.ids().are_row_numbers()) {
    return absl::InvalidArgumentError(
        "the examples of this campaign are known by their row numbers, and the rows have a column of ids; leave that "
        "out, and they get the next numbers");
  }
  if (!shape.has_id && !pool.ids().are_row_numbers()) {
    return absl::InvalidArgumentError(absl::StrCat("the rows have no column of ids; name it '",
                                                   pool.columns().id.empty() ? "id" : pool.columns().id,
                                                   "', as in the campaign's pool"));
  }
  if (shape.sparse) return absl::OkStatus();
  if (pool.sparse() || names != pool.feature_names()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rows have ", names.size(), " features, and the pool ", pool.features().dims(),
                     "; they must have the same names in the same order, and both be dense or both sparse"));
  }
  return absl::OkStatus();
}

/// What is wrong with the file is wrong with what was sent.
absl::Status Blamed(const absl::Status& status, const AppendRequest& request) {
  const bool theirs = absl::IsDataLoss(status) || absl::IsNotFound(status);
  return absl::Status(theirs ? absl::StatusCode::kInvalidArgument : status.code(),
                      absl::StrReplaceAll(std::string(status.message()), {{request.file, request.called}}));
}

v1::AppendItemsResponse ToResponse(const ImportResult& result, const AppendRequest& request, std::size_t pool_rows) {
  v1::AppendItemsResponse response;
  response.set_read(result.counts.read);
  response.set_added(result.counts.added);
  response.set_there_already(result.counts.there_already);
  response.set_rejected(result.counts.rejected);
  for (const std::string& example : result.rejected_examples) {
    response.add_rejected_examples(absl::StrReplaceAll(example, {{request.file, request.called}}));
  }
  response.set_pool_rows(static_cast<std::int64_t>(pool_rows));
  return response;
}

}  // namespace

absl::StatusOr<Appended> PoolAppender::Append(const AppendRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto answered, store_.Run(storage::FindAppendAnswer, {.by = request.by,
                                                                                       .request_id = request.request_id,
                                                                                       .content = request.checksum}));
  if (answered) {
    Appended appended{.repeated = true};
    FULCRUM_RETURN_IF_ERROR(ParseStoredText(*answered, appended.response));
    return appended;
  }
  if (store_.status()->life == "done") {
    return absl::FailedPreconditionError("the campaign is over; no round will come that could use more examples");
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_.Run(storage::AppendedSoFar, {}));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, pool_.Follow(appended, store_.folder()));
  FULCRUM_ASSIGN_OR_RETURN(v1::AppendItemsResponse response, AppendNew(request, *pool, appended.size() + 1));
  return Appended{.response = std::move(response)};
}

absl::StatusOr<v1::AppendItemsResponse> PoolAppender::AppendNew(const AppendRequest& request, const CampaignPool& pool,
                                                                std::size_t number) {
  const std::string name = absl::StrFormat("pool/appended-%05d", number);
  ImportOptions options;
  options.sources = {request.file};
  options.folder = store_.folder().File(name);
  options.columns = pool.columns();
  options.memory_bytes = kMemoryBytes;
  options.max_rejected_share = 1;
  options.may_add_nothing = true;
  options.check_shape = [&](const storage::PoolShape& shape, const std::vector<std::string>& names) {
    return CheckShape(pool, shape, names);
  };
  std::error_code ignored;
  std::filesystem::remove_all(options.folder, ignored);
  FULCRUM_ASSIGN_OR_RETURN(storage::KnownRows known, RowsOf(pool));
  absl::StatusOr<ImportResult> imported = ImportPool(options, std::move(known));
  if (!imported.ok()) return Blamed(imported.status(), request);
  std::shared_ptr<const CampaignPool> grown;
  if (imported->counts.added > 0) {
    // Before the log tells of them: rows that cannot be read back must not become part of the campaign.
    FULCRUM_ASSIGN_OR_RETURN(grown, pool.With(options.folder));
    FULCRUM_RETURN_IF_ERROR(admit_(grown->bytes()));
  }
  v1::AppendItemsResponse response = ToResponse(*imported, request, grown == nullptr ? pool.rows() : grown->rows());
  FULCRUM_RETURN_IF_ERROR(store_
                              .Run(storage::AppendRows, {.by = request.by,
                                                         .request_id = request.request_id,
                                                         .content = request.checksum,
                                                         .folder = name,
                                                         .rows = imported->counts.added,
                                                         .answer = StoredText(response)})
                              .status());
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_.Run(storage::AppendedSoFar, {}));
  FULCRUM_RETURN_IF_ERROR(pool_.Follow(appended, store_.folder(), grown).status());
  return response;
}

}  // namespace fulcrum::pipeline
