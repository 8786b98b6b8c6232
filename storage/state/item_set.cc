#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/state/item_table.h"

namespace fulcrum::storage {
namespace {

// Sorting these takes a few milliseconds.
constexpr std::size_t kMostSortedAtOnce = 32'768;

}  // namespace

std::vector<const Item*> ChangedItems::Take(std::size_t most) {
  if (waiting_.empty()) {
    const auto fresh = std::exchange(fresh_, {});
    waiting_.assign(fresh.begin(), fresh.end());
  }
  if (sorted_ == 0) {
    sorted_ = std::min(kMostSortedAtOnce, waiting_.size());
    std::sort(waiting_.end() - static_cast<std::ptrdiff_t>(sorted_), waiting_.end(),
              [](const Item* a, const Item* b) { return a->id > b->id; });
  }
  const std::size_t count = std::min(most, sorted_);
  std::vector<const Item*> taken(waiting_.rbegin(), waiting_.rbegin() + static_cast<std::ptrdiff_t>(count));
  waiting_.resize(waiting_.size() - count);
  sorted_ -= count;
  return taken;
}

absl::flat_hash_set<std::string> ChangedItems::Ids() const {
  absl::flat_hash_set<std::string> ids;
  for (const Item* item : fresh_) ids.insert(item->id);
  for (const Item* item : waiting_) ids.insert(item->id);
  return ids;
}

std::size_t ItemSet::size() const {
  return static_cast<std::size_t>(std::accumulate(figures_.counts.begin(), figures_.counts.end(), std::int64_t{0}));
}

const Slot* ItemSet::FindSlot(const Item& item, std::int64_t number) {
  for (const Slot& slot : item.slots) {
    if (slot.number == number) return &slot;
  }
  return nullptr;
}

const Vote* ItemSet::FindVote(const Item& item, absl::string_view annotator) {
  for (const Vote& vote : item.votes) {
    if (vote.annotator == annotator) return &vote;
  }
  return nullptr;
}

bool ItemSet::IsLeased(const Item& item) {
  return item.status == ItemStatus::kOffered &&
         std::any_of(item.slots.begin(), item.slots.end(), [](const Slot& slot) { return slot.lease != 0; });
}

void ItemSet::Visit(const std::function<void(const Item&)>& visit) const {
  for (const auto& [id, item] : items_) visit(item);
  if (base_ == nullptr) return;
  base_->VisitItems([&](const StoredItem& stored) {
    if (!items_.contains(stored.item.id)) visit(stored.item);
  });
}

// Items in memory and those in the checkpoint, merged by id.
void ItemSet::VisitStatus(ItemStatus status, absl::string_view after,
                          const std::function<bool(const Item&)>& visit) const {
  const auto& in_memory = by_status_[static_cast<std::size_t>(status)];
  auto next = in_memory.upper_bound(after);
  bool more = true;
  const auto visit_memory = [&](const std::string* before) {
    while (more && next != in_memory.end() && (before == nullptr || (*next)->id < *before)) more = visit(**next++);
  };
  if (base_ != nullptr && status != ItemStatus::kOffered) {
    base_->VisitItems(status, after, [&](const StoredItem& stored) {
      visit_memory(&stored.item.id);
      if (more && !items_.contains(stored.item.id)) more = visit(stored.item);
      return more;
    });
  }
  visit_memory(nullptr);
}

std::vector<Item> ItemSet::VotedInPool() const {
  std::vector<Item> voted;
  VisitStatus(ItemStatus::kInPool, "", [&](const Item& item) {
    if (std::any_of(item.votes.begin(), item.votes.end(), [](const Vote& vote) { return !vote.withdrawn; })) {
      voted.push_back(item);
    }
    return true;
  });
  std::stable_sort(voted.begin(), voted.end(),
                   [](const Item& a, const Item& b) { return std::tie(a.round, a.rank) < std::tie(b.round, b.rank); });
  return voted;
}

std::vector<DecidedLabel> ItemSet::DecidedLabels() const {
  std::vector<DecidedLabel> labels;
  Visit([&](const Item& item) {
    if (item.status == ItemStatus::kLabeled) labels.push_back({item.id, item.value, item.decided_sequence});
  });
  // Only an estimate of the annotators decides several items at once.
  std::sort(labels.begin(), labels.end(),
            [](const auto& a, const auto& b) { return std::tie(a.sequence, a.item) < std::tie(b.sequence, b.item); });
  return labels;
}

void ItemSet::VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const {
  for (const OpenSlotKey& key : open_slots_) {
    if (!visit(*key.item, *FindSlot(*key.item, key.slot))) return;
  }
}

ItemSet::Entry* ItemSet::Lookup(absl::string_view id) const {
  const auto found = items_.find(id);
  if (found != items_.end()) return &found->second;
  if (base_ == nullptr) return nullptr;
  auto stored = base_->FindItem(id);
  return stored ? &Insert(std::move(stored->item)) : nullptr;
}

ItemSet::Entry& ItemSet::Insert(Item item) const {
  std::string id = item.id;
  Entry& entry = items_.emplace(std::move(id), Entry{std::move(item)}).first->second;
  AddToIndexes(entry);
  return entry;
}

void ItemSet::AddToIndexes(Entry& entry) const {
  by_status_[static_cast<std::size_t>(entry.status)].insert(&entry);
  CountLeased(entry, IsLeased(entry));
  for (const Slot& slot : entry.slots) {
    if (slot.status == SlotStatus::kOpen) open_slots_.insert(KeyOf(entry, slot));
  }
}

void ItemSet::RemoveFromIndexes(Entry& entry) const {
  by_status_[static_cast<std::size_t>(entry.status)].erase(&entry);
  CountLeased(entry, false);
  for (const Slot& slot : entry.slots) {
    if (slot.status == SlotStatus::kOpen) open_slots_.erase(KeyOf(entry, slot));
  }
}

void ItemSet::CountLeased(Entry& entry, bool leased) const {
  if (leased == entry.leased) return;
  entry.leased = leased;
  leased_ += leased ? 1 : -1;
}

void ItemSet::Keep(Entry& entry, bool created) {
  changed_.Add(entry);
  if (!keeps_ || entry.kept_in == group_) return;
  entry.kept_in = group_;
  if (kept_count_ == kept_.size()) kept_.emplace_back();
  Kept& kept = kept_[kept_count_++];
  kept.entry = &entry;
  kept.created = created;
  if (!created) kept.before = entry;
}

Item& ItemSet::FindOrCreate(const std::string& id, std::int64_t sequence) {
  Entry* entry = Lookup(id);
  const bool created = entry == nullptr;
  if (created) {
    entry = &Insert({.id = id, .first_sequence = sequence});
    ++figures_.counts[static_cast<std::size_t>(entry->status)];
  }
  Keep(*entry, created);
  return *entry;
}

absl::StatusOr<Item*> ItemSet::Existing(absl::string_view id) {
  Entry* const entry = Lookup(id);
  if (entry == nullptr) return absl::DataLossError(absl::StrCat("no item '", id, "'"));
  Keep(*entry, false);
  return entry;
}

bool ItemSet::OpenSlotKey::operator<(const OpenSlotKey& other) const {
  return std::tie(passes, round, rank, item->id, slot) <
         std::tie(other.passes, other.round, other.rank, other.item->id, other.slot);
}

ItemSet::OpenSlotKey ItemSet::KeyOf(const Item& item, const Slot& slot) {
  return {slot.passes, slot.round, item.rank, &item, slot.number};
}

void ItemSet::OpenSlot(const Item& item, Slot& slot) {
  slot.status = SlotStatus::kOpen;
  open_slots_.insert(KeyOf(item, slot));
}

void ItemSet::CloseSlot(const Item& item, Slot& slot, SlotStatus status) {
  if (slot.status == SlotStatus::kOpen) open_slots_.erase(KeyOf(item, slot));
  slot.status = status;
}

StatusChange ItemSet::Note(Item& item, ItemStatus before) {
  auto& entry = static_cast<Entry&>(item);
  if (entry.status != before) {
    const auto from = static_cast<std::size_t>(before);
    const auto to = static_cast<std::size_t>(entry.status);
    by_status_[from].erase(&entry);
    by_status_[to].insert(&entry);
    --figures_.counts[from];
    ++figures_.counts[to];
  }
  CountLeased(entry, IsLeased(entry));
  return {.round = entry.round, .from = before, .to = entry.status};
}

void ItemSet::NoteAnnotator(const std::string& annotator) {
  if (annotators_.insert(annotator).second && keeps_) new_annotators_.push_back(annotator);
}

void ItemSet::Begin() {
  keeps_ = true;
  ++group_;
  figures_before_ = figures_;
}

void ItemSet::Accept() {
  keeps_ = false;
  kept_count_ = 0;
  new_annotators_.clear();
}

void ItemSet::RollBack() {
  for (std::size_t i = 0; i < kept_count_; ++i) {
    Kept& kept = kept_[i];
    RemoveFromIndexes(*kept.entry);
    if (kept.created) {
      changed_.Forget(*kept.entry);
      items_.erase(std::string(kept.entry->id));
      continue;
    }
    static_cast<Item&>(*kept.entry) = kept.before;
    AddToIndexes(*kept.entry);
  }
  figures_ = figures_before_;
  for (const std::string& annotator : new_annotators_) annotators_.erase(annotator);
  Accept();
}

void ItemSet::ReadFrom(Checkpoint& base, const Figures& figures, const std::vector<std::string>& annotators,
                       LeaseTable& leases) {
  base.VisitItems(
      [&](StoredItem stored) {
        Insert(std::move(stored.item));
        for (Lease& lease : stored.leases) leases.Grant(std::move(lease));
      },
      Checkpoint::Which::kLive);
  base_ = &base;
  figures_ = figures;
  annotators_.insert(annotators.begin(), annotators.end());
}

void ItemSet::LoadAll() {
  if (base_ == nullptr) return;
  base_->VisitItems([this](StoredItem stored) {
    if (!items_.contains(stored.item.id)) Insert(std::move(stored.item));
  });
  base_ = nullptr;
}

}  // namespace fulcrum::storage
