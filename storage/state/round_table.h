// Rounds, and the models that were trained in them.
//
// At most one round is open: the last one. It counts what becomes of its items. The table changes by its transitions
// only, one per kind of event. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {

class RoundTable {
 public:
  // Transitions; DataLoss if the event cannot have happened.

  absl::Status Open(const BatchCommitted& committed, Time at);
  absl::Status AddItem(const ItemBatched& batched);
  /// Returns the items of the round, in the order of their ranks.
  absl::StatusOr<std::vector<std::string>> Close(const RoundClosed& closed, Time at);
  /// Counts an item of the open round by its new status; nothing happens for other items.
  void Count(const StatusChange& change);
  /// Moves the start of the open round.
  void Shift(std::chrono::microseconds gap);
  void AddModel(StoredModel model);

  // Queries.

  /// Rounds are numbered from 1, without gaps.
  std::int64_t count() const { return static_cast<std::int64_t>(rounds_.size()); }
  /// Null for a number that is not a round's.
  const Round* Find(std::int64_t number) const;
  /// Null before the first round.
  const Round* last() const { return Find(count()); }
  /// The round whose items are offered; null between rounds.
  const Round* open() const;
  /// In order.
  void Visit(const std::function<void(const Round&)>& visit) const;

  std::int64_t model_count() const { return static_cast<std::int64_t>(models_.size()); }
  /// The last model of a round, or of all rounds for round 0; null if there is none.
  const StoredModel* FindModel(std::int64_t round) const;
  /// In order.
  void VisitModels(const std::function<void(const StoredModel&)>& visit) const;

  /// Rounds that changed since the last ForgetChanges.
  const absl::flat_hash_set<std::int64_t>& changed() const { return changed_; }
  void ForgetChanges() { changed_.clear(); }

 private:
  absl::StatusOr<Round*> RequireOpen(std::int64_t number);

  std::vector<Round> rounds_;
  std::vector<std::string> open_items_;  ///< of the open round, in the order of their ranks
  std::vector<StoredModel> models_;
  absl::flat_hash_set<std::int64_t> changed_;
};

}  // namespace fulcrum::storage
