#include "storage/derived_rows.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::storage {
namespace {

std::string NumberText(double value) {
  std::string text;
  ingest::AppendNumber(value, text);
  return text;
}

std::string VoteText(const Item& item) {
  return absl::StrJoin(item.votes, "; ", [](std::string* out, const Vote& vote) {
    absl::StrAppend(out, vote.annotator, "=", vote.value, vote.withdrawn ? " (withdrawn)" : "", " @", vote.sequence);
  });
}

}  // namespace

const std::vector<DerivedTableInfo>& DerivedTableInfos() {
  static const auto* const infos = new std::vector<DerivedTableInfo>{
      {"item", 11, 0}, {"slot", 8, 0}, {"lease", 7, 1}, {"round", 11}, {"derived", 2}};
  return *infos;
}

DerivedRow RowOf(const Item& item) {
  return {item.id,
          ItemStatusName(item.status),
          item.value,
          item.reason,
          absl::StrCat(item.round),
          absl::StrCat(item.rank),
          NumberText(item.cost),
          absl::StrCat(item.decided_sequence),
          VoteText(item),
          absl::StrJoin(item.declined_by, "; "),
          item.imported};
}

DerivedRow RowOf(const Item& item, const Slot& slot) {
  return {item.id,
          absl::StrCat(slot.number),
          SlotStatusName(slot.status),
          absl::StrCat(slot.round),
          absl::StrCat(slot.lease),
          absl::StrCat(slot.epoch),
          absl::StrCat(slot.attempts),
          absl::StrCat(slot.passes)};
}

DerivedRow RowOf(const Lease& lease) {
  return {absl::StrCat(lease.id),
          lease.item,
          absl::StrCat(lease.slot),
          absl::StrCat(lease.epoch),
          lease.annotator,
          absl::StrCat(lease.round),
          absl::StrCat(ToMicros(lease.expires_at))};
}

DerivedRow RowOf(const Round& round) {
  return {absl::StrCat(round.number),
          round.open ? "open" : "closed",
          absl::StrCat(ToMicros(round.started_at)),
          absl::StrCat(ToMicros(round.closed_at)),
          round.reason,
          absl::StrCat(round.items),
          absl::StrCat(round.labeled),
          absl::StrCat(round.disputed),
          absl::StrCat(round.set_aside),
          absl::StrCat(round.based_on),
          round.files};
}

std::vector<DerivedRow> FigureRows(const CampaignState& state) {
  const Totals& totals = state.totals();
  return {{"through", absl::StrCat(state.last_sequence())},
          {"life", state.life()},
          {"life_reason", state.life_reason()},
          {"labels", absl::StrCat(totals.labels)},
          {"cost", NumberText(totals.cost)},
          {"label_budget", absl::StrCat(state.settings().label_budget)},
          {"cost_budget", NumberText(state.settings().cost_budget)},
          {"late_labels", absl::StrCat(totals.late_labels)},
          {"imported_labels", absl::StrCat(totals.imported)},
          {"skips", absl::StrCat(totals.skips)},
          {"expired_leases", absl::StrCat(totals.expired_leases)},
          {"models", absl::StrCat(state.models().size())}};
}

std::vector<DerivedRow> AllRows(const CampaignState& state, DerivedTable table) {
  std::vector<DerivedRow> rows;
  switch (table) {
    case DerivedTable::kItem:
      for (const auto& [id, item] : state.items()) rows.push_back(RowOf(item));
      return rows;
    case DerivedTable::kSlot:
      for (const auto& [id, item] : state.items()) {
        for (const Slot& slot : item.slots) rows.push_back(RowOf(item, slot));
      }
      return rows;
    case DerivedTable::kLease:
      for (const auto& [id, lease] : state.leases()) rows.push_back(RowOf(lease));
      return rows;
    case DerivedTable::kRound:
      for (const Round& round : state.rounds()) rows.push_back(RowOf(round));
      return rows;
    case DerivedTable::kFigure:
      return FigureRows(state);
  }
  return rows;
}

}  // namespace fulcrum::storage
