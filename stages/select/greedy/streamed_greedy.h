// Greedy maximisation of DBALEVS' set function (submodular_greedy.h) over a group whose kernel is in no memory:
// millions of candidates, thousands of picks.
//
// A shortlist of the most promising candidates, their features side by side, sees every pick at once and proposes the
// next hundreds of picks. All others see a proposal as a whole, which turns their sums into matrix products, and look
// at every step of it whether their own gain was above the pick's: the proposal stands up to the first step at which
// one was. The first pick always stands, since nobody outside had a gain above the shortlist's edge. So the batch is
// the greedy one, ties to the smaller row, up to float32 rounding of kernel values (about 1e-7 of a gain), and the cost
// is little more than one float32 kernel value a candidate and pick, at the speed of SGEMM. Memory: about 30 bytes a
// candidate.
//
// Scores need not be exact from the start: whoever is not settled yet counts with the most that it can have, and is
// settled before it gets onto a shortlist. The batch is the same as with exact scores for all.
//
// The answer does not depend on the number of threads. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/float_columns.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/greedy/similarity_sums.h"
#include "stages/select/greedy/submodular_greedy.h"

namespace fulcrum::select {

// Scores of a group's candidates of which most are known up to a slack only: the most that each can have, and the truth
// for those who were asked for.
//
// Not thread-safe for Settle; concurrent reads are.

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

struct StreamedProblem {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction kernel;
  std::span<const RowIndex> rows;        ///< behind each position; decides ties
  std::span<const double> scores;        ///< l, by position
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
  std::size_t shortlist = 16384;  ///< about how many candidates see every pick at once
  double slack = 0;               ///< scores may be off by so much; exact_scores tells the truth
  ExactScores exact_scores = {};  ///< must be there with a slack
  /// Of the round before, for the round after; with it `rows` must ascend. May be null.
  SimilarityMemory* similarities = nullptr;
};

/// GreedyBatch::evaluations counts the shortlists. InvalidArgument where a kernel value that was looked at lies outside
/// [0, 1], for which the function would not be monotone.
absl::StatusOr<GreedyBatch> MaximizeStreamed(const StreamedProblem& problem);

// The most promising candidates of a group: they see every pick at once, while all others wait.
//
// Their features lie side by side, so that a pick costs one matrix-vector product over them. Not thread-safe; its
// loops run in parallel inside. Keeps a reference to the features.

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
