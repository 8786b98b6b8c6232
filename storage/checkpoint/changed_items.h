// Items whose rows are not in the checkpoint yet.
//
// They are taken in small groups, so that the thread that writes them is never busy for long, and in the order of their
// ids, as in the table: adjacent rows share pages. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {

class ChangedItems {
 public:
  /// The item must live until it was taken.
  void Add(const Item& item) { fresh_.insert(&item); }
  /// For an item that was added after the last Take and does not exist any more.
  void Forget(const Item& item) { fresh_.erase(&item); }

  bool empty() const { return size() == 0; }
  /// An item that changed again while it was waiting may count twice.
  std::size_t size() const { return fresh_.size() + waiting_.size(); }

  /// At most so many.
  std::vector<const Item*> Take(std::size_t most);

  /// The ids of all.
  absl::flat_hash_set<std::string> Ids() const;

 private:
  absl::flat_hash_set<const Item*> fresh_;
  std::vector<const Item*> waiting_;  ///< taken from its end
  std::size_t sorted_ = 0;            ///< so many at the end of waiting_ are in descending order
};

}  // namespace fulcrum::storage
