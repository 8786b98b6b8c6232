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
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/row_share.h"
#include "stages/core/rows.h"
#include "stages/kernel/guest_features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {

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
