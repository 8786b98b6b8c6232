// Live leases: which annotator holds which slot, and until when.
//
// The table changes by its transitions only, one per kind of event. What happens to the slot of a lease is up to the
// item table. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {

class LeaseTable {
 public:
  // Transitions.

  void Grant(Lease lease);
  /// Returns the lease; DataLoss if it is not live.
  absl::StatusOr<Lease> Renew(const LeaseRenewed& renewed);
  /// Returns the lease that ended; DataLoss if it is not live.
  absl::StatusOr<Lease> End(std::int64_t id);
  /// Moves the end of every lease.
  void Shift(std::chrono::microseconds gap);

  /// RollBack undoes everything since Begin, except for Shift; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  // Queries.

  std::size_t size() const { return leases_.size(); }
  bool empty() const { return leases_.empty(); }
  /// Null unless the lease is live.
  const Lease* Find(std::int64_t id) const;
  /// In any order.
  void Visit(const std::function<void(const Lease&)>& visit) const;
  /// What an annotator holds.
  struct Held {
    std::int64_t leases = 0;
    double cost = 0;  ///< of their labels
  };
  Held HeldBy(absl::string_view annotator) const;
  /// Annotators who hold a lease.
  std::size_t holders() const { return held_.size(); }
  /// What the labels will cost that live leases are expected to bring.
  double cost() const { return cost_; }
  /// When the next lease ends; nothing if there is none.
  std::optional<Time> NextExpiry() const;
  /// Leases whose time is up, the earliest first.
  std::vector<std::int64_t> Due(Time now) const;

 private:
  void Hold(const Lease& lease);
  void LetGo(const Lease& lease);
  /// Keeps the lease as it is, for RollBack.
  void Keep(std::int64_t id);

  absl::flat_hash_map<std::int64_t, Lease> leases_;
  absl::btree_set<std::pair<Time, std::int64_t>> expiries_;
  absl::flat_hash_map<std::string, Held> held_;  ///< by annotator
  double cost_ = 0;
  absl::flat_hash_map<std::int64_t, std::optional<Lease>> before_;  ///< as they were at Begin
  double cost_before_ = 0;
  bool keeps_ = false;  ///< between Begin and its end
};

}  // namespace fulcrum::storage
