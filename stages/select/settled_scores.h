// Scores of a group's candidates of which most are known up to a slack only: the most that each can have, and the truth
// for those who were asked for.
//
// Not thread-safe for Settle; concurrent reads are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fulcrum::select {

/// l of the candidates at some positions.
using ExactScores = std::function<std::vector<double>(std::span<const std::size_t> positions)>;

class SettledScores {
 public:
  /// Without a slack all scores are the truth, and `exact` is not needed.
  SettledScores(std::span<const double> scores, double slack, ExactScores exact);

  /// By position.
  std::span<const double> AtMost() const { return at_most_; }
  double AtMost(std::size_t position) const { return at_most_[position]; }

  /// Learns the truth about these candidates; about everyone, once so many were asked for that it is no more work.
  /// False where it was known.
  bool Settle(std::span<const std::size_t> positions);

 private:
  void Ask(std::span<const std::size_t> positions);

  std::vector<double> at_most_;
  ExactScores exact_;
  std::vector<std::uint8_t> settled_;  // by position; empty where all are
  std::size_t settled_count_ = 0;
};

}  // namespace fulcrum::select
