// The threshold of a stream: rows whose score reaches it are taken, and it moves so that the taken rows keep a budget.
//
// The threshold is a quantile of the latest scores, so that it follows them wherever they drift. Which quantile depends
// on the balance, the labels that the budget allows so far minus those that were taken. With the slack s, 1 label or
// 0.5 percent of the budget so far, whichever is more, and b the share of rows that the budget allows:
//
//   share that is taken now = b^(1 - balance / s)   if the balance is positive: 1 at a balance of s
//                             b (1 + balance / s)   if it is negative: 0 at -s
//
// So the balance never leaves [-s, s] whatever the scores are, which is the guarantee: after n rows at least b n - s
// and at most b n + s rows are taken. A budget per time gives the same to the labels that are due at that rate; what is
// due beyond the slack because nothing arrived lapses, so that a pause is not followed by a burst.
//
// Deterministic: a function of the scores and times. Not thread-safe. The state is a few numbers and the window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "stages/classify/model_file.h"

namespace fulcrum::stream {

/// How many rows of a stream may be taken. One of the two is set.
struct Budget {
  double share = 0;       ///< of the rows, above 0 and at most 1
  double per_second = 0;  ///< labels in a second
};

/// InvalidArgument unless one of the two is set, and to something possible.
absl::Status ValidateBudget(const Budget& budget);

class BudgetThreshold {
 public:
  /// The budget must be valid.
  explicit BudgetThreshold(const Budget& budget);

  struct Answer {
    double threshold = 0;  ///< infinite if nothing may be taken now, minus infinity if everything must be
    bool take = false;
  };
  /// The next row. `seconds` is the time since any fixed moment; where it goes back, no time has passed. A budget per
  /// share ignores it.
  Answer Offer(double score, double seconds);

  /// A row that was decided before, after the state that was read.
  void Repeat(double score, double seconds, bool taken);

  /// What scores mean has changed: the threshold is learned anew, and the budget goes on.
  void ForgetScores();

  std::uint64_t rows() const { return rows_; }
  std::uint64_t taken() const { return taken_; }
  /// The labels that the budget allows so far.
  double due() const { return due_; }

  void Write(classify::ByteWriter& out) const;
  /// InvalidArgument if this is not the state of the same budget.
  absl::Status Read(classify::ByteReader& in);

 private:
  void Accrue(double seconds);
  double Slack() const;
  /// The share of rows to take at this balance.
  double WantedShare() const;
  /// Scores that must be known before one can be above the threshold.
  std::size_t FirstScores() const;
  double ThresholdFor(double share) const;
  void Remember(double score);

  Budget budget_;
  std::size_t window_size_;
  std::uint64_t rows_ = 0;
  std::uint64_t taken_ = 0;
  double due_ = 0;
  double latest_ = 0;
  double gap_ = 0;              // per time: seconds between rows, a moving mean
  std::size_t oldest_ = 0;      // in window_
  std::vector<double> window_;  // the latest scores
  std::vector<double> sorted_;  // the same, ascending
};

}  // namespace fulcrum::stream
