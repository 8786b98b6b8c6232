#include "storage/rules/offer_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::storage {
namespace {

std::int64_t FingerprintOf(const OfferedGroup& group) {
  return Fingerprint({"offer", group.content});
}

absl::Status CheckGroup(Ledger& ledger, const OfferedGroup& group, absl::flat_hash_set<absl::string_view>& items) {
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindOffer(ledger, group));
  if (repeated) return absl::AbortedError("the request took effect meanwhile");
  const auto taken = static_cast<std::int64_t>(group.taken.size());
  if (group.rows < 1 || group.kept < taken || group.kept > group.rows || group.alarms < 0) {
    return absl::InvalidArgumentError("the numbers of rows contradict each other");
  }
  for (const ItemTaken& row : group.taken) {
    FULCRUM_RETURN_IF_ERROR(CheckText("item", row.item));
    if (!(std::isfinite(row.cost) && row.cost >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("a label of item '", row.item, "' cannot cost ", row.cost));
    }
    const Item* const item = ledger.state().items().Find(row.item);
    if (!items.insert(row.item).second || (item != nullptr && item->status != ItemStatus::kInPool)) {
      return absl::AbortedError(absl::StrCat("item '", row.item, "' is known by now"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<std::string>> FindOffer(Ledger& ledger, const OfferedGroup& group) {
  FULCRUM_RETURN_IF_ERROR(CheckText("name of who offers", group.by));
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {group.by, group.request_id, FingerprintOf(group)}));
  if (!repeated) return std::nullopt;
  const auto* const offered = std::get_if<RowsOffered>(&repeated->body);
  return offered == nullptr ? std::string() : offered->record;
}

absl::StatusOr<std::int64_t> OfferRows(Ledger& ledger, const OfferRowsRequest& request) {
  const CampaignState& state = ledger.state();
  if (state.life() != Life::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat("the campaign is ", LifeName(state.life()), " and takes no rows of a stream; start or resume it"));
  }
  if (request.after != state.offered().figures().rows) {
    return absl::AbortedError(absl::StrCat("the decision follows ", request.after, " rows, and the log has ",
                                           state.offered().figures().rows));
  }
  absl::flat_hash_set<absl::string_view> items;
  for (const OfferedGroup& group : request.groups) FULCRUM_RETURN_IF_ERROR(CheckGroup(ledger, group, items));
  std::int64_t sequence = 0;
  for (const OfferedGroup& group : request.groups) {
    FULCRUM_ASSIGN_OR_RETURN(sequence,
                             ledger.Append({.annotator = group.by,
                                            .request_id = group.request_id,
                                            .fingerprint = FingerprintOf(group),
                                            .body = RowsOffered{.rows = group.rows,
                                                                .taken = static_cast<std::int64_t>(group.taken.size()),
                                                                .kept = group.kept,
                                                                .alarms = group.alarms,
                                                                .model = group.model,
                                                                .complete = group.complete,
                                                                .record = group.record}}));
    for (const ItemTaken& row : group.taken) FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = row}).status());
  }
  return sequence;
}

absl::StatusOr<std::int64_t> StoreOfferedRows(Ledger& ledger, const StoreOfferedRequest& request) {
  const OfferedFigures& figures = ledger.state().offered().figures();
  if (request.through <= figures.stored || request.through > figures.last) {
    return absl::AbortedError(absl::StrCat("rows up to event ", request.through, " cannot be stored: those up to ",
                                           figures.stored, " are, and the last were offered in event ", figures.last));
  }
  return ledger.Append({.body = OfferedRowsStored{request.rows, request.folder, request.through}});
}

absl::StatusOr<OfferRecordsAnswer> ReadOffers(Ledger& ledger, const OfferRecordsRequest& /*request*/) {
  OfferRecordsAnswer answer{.figures = ledger.state().offered().figures()};
  const OfferedFigures& figures = answer.figures;
  if (figures.last == 0) return answer;
  std::int64_t first = figures.complete == 0 ? 1 : figures.complete;
  if (figures.waiting > 0) first = std::min(first, figures.first);
  FULCRUM_RETURN_IF_ERROR(ledger.log().Visit(first, figures.last, [&](const Event& event) {
    const auto* const offered = std::get_if<RowsOffered>(&event.body);
    if (offered != nullptr) answer.records.push_back({event.sequence, *offered});
    return absl::OkStatus();
  }));
  return answer;
}

}  // namespace fulcrum::storage
