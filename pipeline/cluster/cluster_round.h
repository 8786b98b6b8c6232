// One round over a pool that is spread over processes: the same batch as a round in one process, for any number of
// them.
//
// Each rank has its share of the rows (stages/core/communicator.h) and makes the same calls. What is exchanged are
// labeled rows, landmarks, sums, candidates and picks:
//
//   train       labeled rows are shared; the root trains and broadcasts the model
//   predict     own rows
//   score       large classes by shared landmarks (stages/leverage/landmark_engine.h); a class that one process scores
//               with its whole kernel is gathered at the root, which scores it as a round in one process does
//   select      proposals are merged at the root and checked by every rank (cluster_selection.h)
//
// Not thread-safe; loops run in parallel inside. Errors are the same on every rank, except those of the communicator.
#pragma once

#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "stages/core/communicator.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

/// The pool, as one of the processes sees it.
struct ClusterPool {
  const Communicator& peers;
  const kernel::Features& features;  ///< of the own rows, normalised
  RowShare share;
};

/// InvalidArgument, with the names of those that do, if the strategy does not run over several processes.
absl::Status CheckClusterStrategy(const std::string& strategy);

/// `input` has the own rows, but `barred` are rows of the whole pool, the same on every rank. The result has the picks,
/// with rows of the whole pool, and the reports on every rank, and `predicted` and `leverage` of the own rows.
absl::StatusOr<RoundResult> RunClusterRound(const RoundSpec& spec, const ClusterPool& pool, const RoundInput& input,
                                            const ProgressCallback& progress = {});

}  // namespace fulcrum::pipeline
