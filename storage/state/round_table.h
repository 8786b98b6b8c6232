// Rounds, and the models that were trained in them.
//
// At most one round is open: the last one. It counts what becomes of its items. The table changes by its transitions
// only, one per kind of event. Rounds and models from before the checkpoint are read when they are needed. Used by one
// thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint/checkpoint.h"
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

  /// RollBack undoes everything since Begin, except for Shift; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  // Queries.

  /// Rounds are numbered from 1, without gaps.
  std::int64_t count() const { return older_ + static_cast<std::int64_t>(rounds_.size()); }
  /// Null for a number that is not a round's.
  const Round* Find(std::int64_t number) const;
  /// Null before the first round.
  const Round* last() const { return rounds_.empty() ? nullptr : &rounds_.back(); }
  /// The round whose items are offered; null between rounds.
  const Round* open() const { return rounds_.empty() || !rounds_.back().open ? nullptr : &rounds_.back(); }
  /// Items of the open round, in the order of their ranks.
  const std::vector<std::string>& open_items() const { return open_items_; }
  /// In order.
  void Visit(const std::function<void(const Round&)>& visit) const;

  std::int64_t model_count() const { return older_models_ + static_cast<std::int64_t>(models_.size()); }
  /// The last model of a round, or of all rounds for round 0; null if there is none.
  const StoredModel* FindModel(std::int64_t round) const;
  /// In order.
  void VisitModels(const std::function<void(const StoredModel&)>& visit) const;

  /// Rounds and models that changed since the last ForgetChanges.
  const absl::flat_hash_set<std::int64_t>& changed() const { return changed_; }
  std::span<const StoredModel> new_models() const { return std::span(models_).subspan(written_models_); }
  void ForgetChanges();

  /// The last of `rounds` rounds is loaded.
  void ReadFrom(Checkpoint& base, std::int64_t rounds, std::vector<std::string> open_items, std::int64_t models);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

 private:
  absl::StatusOr<Round*> RequireOpen(std::int64_t number);

  std::vector<Round> rounds_;            ///< those after the first `older_`
  std::vector<std::string> open_items_;  ///< of the open round, in the order of their ranks
  std::vector<StoredModel> models_;      ///< those after the first `older_models_`
  absl::flat_hash_set<std::int64_t> changed_;
  std::size_t written_models_ = 0;

  Checkpoint* base_ = nullptr;
  std::int64_t older_ = 0;
  std::int64_t older_models_ = 0;
  // What was read from the checkpoint, by round.
  mutable absl::node_hash_map<std::int64_t, Round> read_rounds_;
  mutable absl::node_hash_map<std::int64_t, StoredModel> read_models_;

  /// As it was at Begin.
  struct Before {
    std::size_t rounds = 0;
    std::vector<Round> last = {};  ///< none or one
    std::size_t open_items = 0;
    std::size_t models = 0;
    bool closed = false;  ///< open_items_ was moved to closed_items
    std::vector<std::string> closed_items = {};
  };
  bool keeps_ = false;  ///< between Begin and its end
  Before before_;
};

}  // namespace fulcrum::storage
