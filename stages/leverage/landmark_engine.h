// Leverage scores of a class of any number of rows, approximated from some of them: the landmarks.
//
//   landmarks S, uniform over the class, by a seed         once; they stay from round to round
//   L L' = K_SS                                            once (landmarks.h)
//   G = sum of c(x) c(x)', c(x) = K(S, x)                  a first pass; later only the rows that entered or left
//   (theta, w) = top of L^-1 G L^-T, k from tau            n_s x n_s, warm from last round's
//   l(x) = |projection c(x)|^2                             a second pass; later only the rows that can matter
//   or, if requested, from one product of more vectors with the whole kernel (landmarks.h), in every round
//
// Both passes stream the rows in blocks of float32 kernel tiles; nothing of the size of the class is kept but its
// scores. The quality of the scores is measured in every round: see LandmarkQuality. Not thread-safe; loops run in
// parallel inside, and the result does not depend on the number of threads. Keeps a reference to the features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {

struct LandmarkRequest {
  double tau = 0.5;
  std::uint64_t seed = 1;
  std::size_t landmarks = 0;  ///< n_s; 0: DefaultLandmarks (landmarks.h)
  /// The landmarks to begin with, ascending, from an earlier engine. They are drawn if this is empty, or if the class
  /// has grown to twice what they were drawn from.
  std::span<const RowIndex> chosen = {};
  /// Above this number of rows the first pass sums a part, which changes scores by a thousandth: far less than the
  /// error of landmarks.
  std::size_t most_summed = 1000000;
  /// Multiplies the vectors of the landmarks with the whole kernel: much better scores, for m^2 kernel values per
  /// round. All rows are scored then.
  bool refine = false;
  /// Scores of an earlier round suffice, with a bound on their error; the caller requests those that matter.
  bool bounds_suffice = false;
};

/// How good the scores are.
struct LandmarkQuality {
  double captured_share = 0;   ///< of the class's trace: the most that the landmarks can represent
  double residual = 0;         ///< |K u - theta u| / theta_1, the largest over the pairs, estimated from sampled rows
  std::size_t sample = 0;      ///< rows of the comparison with exact scores; 0 if it was not repeated
  double collected_share = 0;  ///< share of the leverage of the exact best twentieth of the sample that ours has
};

struct LandmarkScores {
  std::vector<double> scores = {};  ///< l_i in the order of the rows, not scaled
  std::size_t rank = 0;             ///< k
  double trace_share = 0;           ///< that the rank reaches
  bool warm = false;                ///< G was updated, not summed again
  std::size_t vectors_refined = 0;  ///< with the whole kernel; 0: not refined
  std::string not_refined = {};     ///< why scores were not refined although that was requested; empty otherwise
  std::size_t rows_summed = 0;      ///< rows of the first pass
  std::size_t rows_scored = 0;      ///< rows of the second pass
  double slack = 0;                 ///< above 0: scores are of an earlier round, none of them off by more
  LandmarkQuality quality = {};
  std::string reason = {};
};

class LandmarkEngine {
 public:
  /// `stream` schedules the blocks of both passes; it and the features must outlive the engine.
  LandmarkEngine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                 const BlockStream& stream = BlocksInTurns());
  ~LandmarkEngine();

  /// Scores of `rows` (ascending). Remembers what makes the next call cheap.
  absl::StatusOr<LandmarkScores> Score(std::span<const RowIndex> rows, const LandmarkRequest& request);

  /// Ascending; empty before the first Score.
  std::span<const RowIndex> landmarks() const;

  /// The scores that some (or all) of the rows of the last Score have now.
  std::vector<double> Rescore(std::span<const RowIndex> rows);

 private:
  struct Model;

  absl::Status Begin(std::span<const RowIndex> rows, const LandmarkRequest& request);
  /// Brings the sum up to date, by an update if that is enough.
  void UpdateGram(std::span<const RowIndex> rows, const LandmarkRequest& request, LandmarkScores& result);
  /// No score can have moved by more since the last pass over all rows.
  absl::StatusOr<double> ChangeSinceLastPass(std::span<const RowIndex> rows) const;
  /// The second pass, over as many rows as necessary.
  absl::Status ScoreAll(std::span<const RowIndex> rows, const LandmarkRequest& request, LandmarkScores& result);
  /// Scores of all rows from `count` leading vectors and the whole kernel.
  absl::Status ScoreRefined(std::span<const RowIndex> rows, const LandmarkRequest& request, std::size_t count,
                            LandmarkScores& result);
  /// Keeps the scores of the last pass, and scores new rows with its solution.
  void ScoreNewcomers(std::span<const RowIndex> rows, LandmarkScores& result);
  void RememberPass(std::span<const RowIndex> rows, std::span<const double> scores);
  absl::Status CompareWithExact(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                LandmarkQuality& quality) const;
  double TraceOf(std::span<const RowIndex> rows) const;
  double LargestDiagonal(std::span<const RowIndex> rows) const;

  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  const BlockStream& stream_;
  std::unique_ptr<Model> model_;
};

// Landmark scores (landmark_engine.h) of a class whose rows are spread over processes.
//
// Landmarks are drawn by their position in the class, gathered and given to every rank. Each rank sums over its own
// rows and scores them; the sums are added up at the root, which solves the eigenproblem. Sums are of exact terms
// within fixed units of rows, so that scores do not depend on the number of ranks. What is sent, with n_s landmarks of
// d features and rank k: 8 n_s d and 4 n_s (n_s + 512) bytes from every rank, 8 n_s (d + 1) + 4 n_s k bytes to every
// rank.
//
// Scores are not refined with the whole kernel: classes for which that is affordable are scored by one process. Every
// rank makes the same calls; not thread-safe, loops run in parallel inside.

/// A class, as one of the processes sees it.
struct SharedClass {
  const Communicator& peers;
  kernel::GuestFeatures& features;  ///< gets the landmarks as guests while they are needed
  std::span<const RowIndex> rows;   ///< of this process, ascending
  RowShare share;                   ///< of the pool, that this process has
};

/// The scores of the own rows; the same errors as LeverageEngine::Score, on every rank. Of the request only tau, seed
/// and landmarks are used.
absl::StatusOr<ClassScores> ScoreSharedClass(const kernel::KernelFunction& kernel, const SharedClass& shared,
                                             const ClassRequest& request);

}  // namespace fulcrum::leverage
