// The rows that a pool has, by the fingerprints of their ids, to tell new ones from old ones. Not thread-safe.
//
// 64 bits an id: among 20 million rows the chance that any two different ids are taken for one is one in 90,000, and
// then a row is set aside with a reason, not lost. In shards, so that growing copies a 64th at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace fulcrum::storage {

class KnownRows {
 public:
  enum class Verdict { kNew, kSame, kOther };

  /// Whether a row with this id is there, with this content or another; where it is not, it is from now on.
  Verdict Add(std::uint64_t id, std::uint64_t content) {
    const auto [found, inserted] = shards_[id >> kShift].try_emplace(id, content);
    if (inserted) return Verdict::kNew;
    return found->second == content ? Verdict::kSame : Verdict::kOther;
  }
  /// Adds what `other` knows; where both have an id, this one's content stays.
  void Merge(KnownRows other) {
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) shards_[shard].merge(other.shards_[shard]);
  }

 private:
  static constexpr int kShift = 58;
  std::array<absl::flat_hash_map<std::uint64_t, std::uint64_t>, 64> shards_;
};

}  // namespace fulcrum::storage
