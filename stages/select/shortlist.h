// The most promising candidates of a group: they see every pick at once, while all others wait.
//
// Their features lie side by side, so that a pick costs one matrix-vector product over them. Not thread-safe; its
// loops run in parallel inside. Keeps a reference to the features.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/float_columns.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

class Shortlist {
 public:
  struct Member {
    std::size_t position = 0;  ///< in the group
    RowIndex row = 0;          ///< decides ties: the smaller first
    double score = 0;          ///< l
    double similarity = 0;     ///< summed over what is chosen so far
  };
  struct Best {
    std::size_t index = 0;  ///< in the shortlist
    double gain = 0;
  };

  /// `factor` is alpha / M of the set function.
  Shortlist(const kernel::KernelFunction& kernel, const kernel::Features& features, std::vector<Member> members,
            double factor);

  /// The member with the largest gain that has not been chosen; nothing where all have.
  const std::optional<Best>& best() const { return best_; }
  const Member& member(std::size_t index) const { return members_[index]; }

  /// Takes the best out and lets all others see it.
  void Choose();

 private:
  double GainOf(const Member& member) const;
  bool IsBetter(const Best& a, const Best& b) const;
  /// The best of some members, after `chosen` was added to their sums.
  std::optional<Best> SeeAndFindBest(std::size_t first, std::size_t count, std::optional<RowIndex> chosen);
  void FindBest(std::optional<RowIndex> chosen);

  std::vector<Member> members_;
  std::vector<std::uint8_t> open_;
  double factor_;
  kernel::FloatColumns columns_;
  std::optional<Best> best_;
};

}  // namespace fulcrum::select
