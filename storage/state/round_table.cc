#include "storage/state/round_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {

absl::StatusOr<Round*> RoundTable::RequireOpen(std::int64_t number) {
  if (open() == nullptr || rounds_.back().number != number) {
    return absl::DataLossError(absl::StrCat("round ", number, " is not open"));
  }
  changed_.insert(number);
  return &rounds_.back();
}

absl::Status RoundTable::Open(const BatchCommitted& committed, Time at) {
  if (open() != nullptr) return absl::DataLossError("the round before is still open");
  const std::int64_t expected = count() + 1;
  if (committed.round != expected) return absl::DataLossError(absl::StrCat("the next round is ", expected));
  rounds_.push_back(
      {.number = committed.round, .started_at = at, .based_on = committed.based_on, .files = committed.files});
  changed_.insert(committed.round);
  return absl::OkStatus();
}

absl::Status RoundTable::AddItem(const ItemBatched& batched) {
  FULCRUM_ASSIGN_OR_RETURN(Round* const round, RequireOpen(batched.round));
  ++round->items;
  open_items_.push_back(batched.item);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RoundTable::Close(const RoundClosed& closed, Time at) {
  FULCRUM_ASSIGN_OR_RETURN(Round* const round, RequireOpen(closed.round));
  round->open = false;
  round->closed_at = at;
  round->reason = closed.reason;
  return std::exchange(open_items_, {});
}

void RoundTable::Count(const StatusChange& change) {
  if (change.from == change.to || open() == nullptr || rounds_.back().number != change.round) return;
  Round& round = rounds_.back();
  const auto count = [&](ItemStatus status, std::int64_t by) {
    if (status == ItemStatus::kLabeled) round.labeled += by;
    if (status == ItemStatus::kDisputed) round.disputed += by;
    if (status == ItemStatus::kSetAside) round.set_aside += by;
  };
  count(change.from, -1);
  count(change.to, 1);
  changed_.insert(round.number);
}

void RoundTable::Shift(std::chrono::microseconds gap) {
  if (open() == nullptr) return;
  rounds_.back().started_at += gap;
  changed_.insert(rounds_.back().number);
}

void RoundTable::AddModel(StoredModel model) {
  models_.push_back(std::move(model));
}

const Round* RoundTable::Find(std::int64_t number) const {
  return number < 1 || number > count() ? nullptr : &rounds_[static_cast<std::size_t>(number - 1)];
}

const Round* RoundTable::open() const {
  return rounds_.empty() || !rounds_.back().open ? nullptr : &rounds_.back();
}

void RoundTable::Visit(const std::function<void(const Round&)>& visit) const {
  for (const Round& round : rounds_) visit(round);
}

const StoredModel* RoundTable::FindModel(std::int64_t round) const {
  for (auto model = models_.rbegin(); model != models_.rend(); ++model) {
    if (round == 0 || model->round == round) return &*model;
  }
  return nullptr;
}

void RoundTable::VisitModels(const std::function<void(const StoredModel&)>& visit) const {
  for (const StoredModel& model : models_) visit(model);
}

}  // namespace fulcrum::storage
