// Rows of a stream that are in the log and not yet in the files of the pool.
//
// Thread-safe; nothing but Store waits.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/campaign/stream/offer_record.h"

namespace fulcrum::pipeline {

class WaitingRows {
 public:
  /// Of rows whose record is being written.
  static constexpr std::int64_t kNotCommitted = std::numeric_limits<std::int64_t>::max();

  /// A row, the last of all; `sequence` is that of a record which has it, or of a later one.
  void Add(const OfferedRow& row, std::int64_t sequence);
  /// The records up to this one are in the log, and with them the rows that were added before and not forgotten.
  void Commit(std::int64_t sequence);
  /// Those that are not committed.
  void ForgetUncommitted();

  bool Has(absl::string_view item) const;
  /// Nothing for an item that does not wait here.
  std::optional<std::string> PayloadOf(absl::string_view item) const;
  std::optional<std::size_t> PayloadBytes(absl::string_view item) const;
  std::size_t size() const;
  /// Memory that they take.
  std::size_t bytes() const;

  /// Puts those that are committed into files of the pool. Aborted while others append.
  absl::Status Store(const GrowingPool& pool, PoolAppender& appender);

 private:
  struct Waiting {
    OfferedRow row = {};
    std::int64_t sequence = 0;
    std::int64_t number = 0;  ///< in the order of arrival
  };

  mutable std::mutex mutex_;
  absl::node_hash_map<std::string, Waiting> rows_;  // by id
  std::vector<std::string> uncommitted_;
  std::size_t bytes_ = 0;
  std::int64_t last_number_ = 0;
  std::int64_t committed_ = 0;
  std::mutex storing_;
};

}  // namespace fulcrum::pipeline
