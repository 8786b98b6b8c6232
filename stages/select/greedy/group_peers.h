// The candidates of a group that is spread over processes: where those of this process are among them, and what has to
// be known about the others.
//
// Positions in the whole group count the candidates of rank 0 first, then those of rank 1, and so on, which is the
// order of their rows. In one process all calls return what they were given. Not thread-safe; every rank makes the same
// calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "stages/core/communicator.h"
#include "stages/select/score_order.h"

namespace fulcrum::select {

class GroupPeers {
 public:
  /// `own` candidates are those of this process.
  GroupPeers(const Communicator& peers, std::size_t own) : peers_(peers), own_(own) {
    const std::vector<std::size_t> sizes = ShareValue(peers, own);
    const auto mine = sizes.begin() + peers.rank();
    first_ = std::accumulate(sizes.begin(), mine, std::size_t{0});
    size_ = std::accumulate(mine, sizes.end(), first_);
  }

  const Communicator& communicator() const { return peers_; }
  bool is_alone() const { return peers_.is_alone(); }
  /// Candidates of all processes.
  std::size_t size() const { return size_; }
  /// The position of the first own candidate in the group.
  std::size_t first() const { return first_; }
  bool IsOwn(std::size_t position) const { return position >= first_ && position < first_ + own_; }

  std::size_t Sum(std::size_t value) const {
    if (is_alone()) return value;
    const std::vector<std::size_t> values = ShareValue(peers_, value);
    return std::accumulate(values.begin(), values.end(), std::size_t{0});
  }

  /// At least the `count` largest values of all processes, on every rank.
  std::vector<double> Largest(std::vector<double> values, std::size_t count) const {
    if (is_alone()) return values;
    if (count < values.size()) {
      std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(count), LargerFirst());
      values.resize(count);
    }
    return ShareValues(peers_, std::move(values));
  }

  struct Champion {
    double score = 0;
    std::size_t position = 0;  ///< in the group
    bool is_there = false;
    int rank = 0;  ///< of the process that has it
  };
  /// The best of all processes; ties go to the smaller position.
  Champion BestOf(const Champion& own) const {
    if (is_alone()) return own;
    Champion best;
    int rank = 0;
    for (const Champion& other : ShareValue(peers_, own)) {
      if (other.is_there && (!best.is_there || LargerFirst()(other.score, best.score))) {
        best = other;
        best.rank = rank;
      }
      ++rank;
    }
    return best;
  }

 private:
  const Communicator& peers_;
  std::size_t own_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace fulcrum::select
