// What a stream of rows has brought a campaign: figures of what was decided, and the items that were taken.
//
// A row that is taken is an item at once. It is a task of the open round; between rounds, and if a round ends without
// an answer to it, it waits for the next batch, which it then belongs to. The rows themselves are in the log until they
// are stored in the pool's files. The table changes by its transitions only. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/log/event.h"

namespace fulcrum::storage {

struct OfferedFigures {
  std::int64_t rows = 0;  ///< decided so far
  std::int64_t taken = 0;
  std::int64_t alarms = 0;    ///< windows of rows that were not distributed as those of the pool
  std::int64_t waiting = 0;   ///< rows that are to join the pool and are in no file of it yet
  std::int64_t first = 0;     ///< sequence of the first RowsOffered with such rows; 0: there are none
  std::int64_t last = 0;      ///< sequence of the last RowsOffered; 0: there was none
  std::int64_t complete = 0;  ///< the same of the last one with the whole state
  std::int64_t stored = 0;    ///< rows up to this RowsOffered are in the pool's files
  std::int64_t in_round = 0;  ///< items of the open round that a stream brought

  bool operator==(const OfferedFigures&) const = default;
};

class OfferedRows {
 public:
  const OfferedFigures& figures() const { return figures_; }
  /// Items that were taken, in their order, without those that were decided when the last round began.
  const std::vector<std::string>& taken() const { return taken_; }

  // Transitions; DataLoss if the event cannot have happened.

  absl::Status Offer(const RowsOffered& offered, std::int64_t sequence);
  /// `in_round`: a round is open, and the item is one of its tasks.
  void Take(const std::string& item, bool in_round);
  absl::Status Store(const OfferedRowsStored& stored);
  /// Forgets the items that need no more answers. The round begins with `carried` of the others.
  void OpenRound(const std::function<bool(const std::string& item)>& is_decided, std::int64_t carried);
  void CloseRound() { figures_.in_round = 0; }

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  /// For a checkpoint.
  std::string ToText() const;
  static absl::StatusOr<OfferedRows> FromText(const std::string& text);

 private:
  OfferedFigures figures_;
  std::vector<std::string> taken_;
  // As they were at Begin.
  OfferedFigures figures_before_;
  std::size_t taken_before_ = 0;
  std::optional<std::vector<std::string>> pruned_;  ///< taken_, if OpenRound has changed it
};

}  // namespace fulcrum::storage
