#include "storage/pool_rules.h"

#include "stages/core/status_macros.h"
#include "storage/request_check.h"

namespace fulcrum::storage {
namespace {

std::int64_t FingerprintOf(const AppendRowsRequest& request) {
  return Fingerprint({"append", request.content});
}

}  // namespace

absl::StatusOr<std::optional<std::string>> FindAppendAnswer(Ledger& ledger, const AppendRowsRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("name of who appends", request.by));
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.by, request.request_id, FingerprintOf(request)}));
  return repeated ? std::optional(repeated->detail) : std::nullopt;
}

absl::StatusOr<std::string> AppendRows(Ledger& ledger, const AppendRowsRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto answered, FindAppendAnswer(ledger, request));
  if (answered) return *answered;
  FULCRUM_RETURN_IF_ERROR(ledger
                              .Append({.kind = EventKind::kRowsAppended,
                                       .annotator = request.by,
                                       .request_id = request.request_id,
                                       .fingerprint = FingerprintOf(request),
                                       .value = request.folder,
                                       .number = request.rows,
                                       .detail = request.answer})
                              .status());
  return request.answer;
}

absl::StatusOr<std::vector<AppendedRows>> AppendedSoFar(Ledger& ledger, const AppendedSoFarRequest& /*request*/) {
  return ledger.state().appended();
}

}  // namespace fulcrum::storage
