#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/tables.h"

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
  if (keeps_ && !before_.closed) {
    // A round that was opened since Begin has no items to go back to.
    before_.closed_items.assign(open_items_.begin(),
                                open_items_.begin() + static_cast<std::ptrdiff_t>(before_.open_items));
    before_.closed = true;
  }
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

void RoundTable::Begin() {
  keeps_ = true;
  before_ = {.rounds = rounds_.size(), .open_items = open_items_.size(), .models = models_.size()};
  if (!rounds_.empty()) before_.last.push_back(rounds_.back());
}

void RoundTable::Accept() {
  keeps_ = false;
  before_ = {};
}

void RoundTable::RollBack() {
  if (before_.closed) open_items_ = std::move(before_.closed_items);
  open_items_.resize(before_.open_items);
  rounds_.resize(before_.rounds);
  if (!rounds_.empty()) rounds_.back() = before_.last.front();
  models_.resize(before_.models);
  absl::erase_if(changed_, [this](std::int64_t number) { return number > count(); });
  Accept();
}

const Round* RoundTable::Find(std::int64_t number) const {
  if (number < 1 || number > count()) return nullptr;
  if (number > older_) return &rounds_[static_cast<std::size_t>(number - older_ - 1)];
  auto found = read_rounds_.find(number);
  if (found == read_rounds_.end()) {
    const auto round = base_->FindRound(number);
    if (!round) return nullptr;
    found = read_rounds_.emplace(number, *round).first;
  }
  return &found->second;
}

void RoundTable::Visit(const std::function<void(const Round&)>& visit) const {
  if (older_ > 0) {
    base_->VisitRounds([&](const Round& round) {
      if (round.number <= older_) visit(round);
    });
  }
  for (const Round& round : rounds_) visit(round);
}

const StoredModel* RoundTable::FindModel(std::int64_t round) const {
  for (auto model = models_.rbegin(); model != models_.rend(); ++model) {
    if (round == 0 || model->round == round) return &*model;
  }
  if (older_models_ == 0) return nullptr;
  auto found = read_models_.find(round);
  if (found == read_models_.end()) {
    auto model = base_->FindModel(round);
    if (!model) return nullptr;
    found = read_models_.emplace(round, *std::move(model)).first;
  }
  return &found->second;
}

void RoundTable::VisitModels(const std::function<void(const StoredModel&)>& visit) const {
  if (older_models_ > 0) {
    std::int64_t seen = 0;
    base_->VisitModels([&](const StoredModel& model) {
      if (seen++ < older_models_) visit(model);
    });
  }
  for (const StoredModel& model : models_) visit(model);
}

void RoundTable::ForgetChanges() {
  changed_.clear();
  written_models_ = models_.size();
}

void RoundTable::ReadFrom(Checkpoint& base, std::int64_t rounds, std::vector<std::string> open_items,
                          std::int64_t models) {
  base_ = &base;
  older_ = rounds;
  older_models_ = models;
  open_items_ = std::move(open_items);
  const auto last = rounds == 0 ? std::nullopt : base.FindRound(rounds);
  if (!last) return;
  older_ = rounds - 1;
  rounds_.push_back(*last);
}

void RoundTable::LoadAll() {
  if (base_ == nullptr) return;
  std::vector<Round> rounds;
  Visit([&](const Round& round) { rounds.push_back(round); });
  std::vector<StoredModel> models;
  VisitModels([&](const StoredModel& model) { models.push_back(model); });
  written_models_ += static_cast<std::size_t>(older_models_);
  rounds_ = std::move(rounds);
  models_ = std::move(models);
  older_ = 0;
  older_models_ = 0;
  base_ = nullptr;
}

}  // namespace fulcrum::storage
