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
//   select      proposals are merged at the root and checked by every rank (cluster_selection.cc)
//
// Not thread-safe; loops run in parallel inside. Errors are the same on every rank, except those of the communicator.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"

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

// The selection of a batch from a pool that is spread over processes.
//
// Every rank proposes its best candidates, and the batch is the one that a round in one process selects. Every rank
// makes the same calls; not thread-safe.

/// A class that the root scored on its own.
struct GatheredClass {
  std::unique_ptr<kernel::DenseFeatures> features;
  std::vector<ClassIndex> labels;                    ///< by row of the features
  std::unique_ptr<leverage::LeverageEngine> engine;  ///< has the kernel that the scores may refer to
  leverage::ClassScores scored = {};                 ///< rows are those of the features
};

/// A class group, or the whole pool, and its leverage.
struct ClusterGroup {
  ClassIndex class_index = 0;
  RowList rows = {};                             ///< own, ascending
  std::vector<double> leverage = {};             ///< in their order
  std::size_t first = 0;                         ///< position of the first own row in the whole group
  std::size_t total = 0;                         ///< rows of the whole group
  std::vector<std::size_t> labeled = {};         ///< own, as positions in `rows`
  std::size_t labeled_total = 0;                 ///< of the whole group
  RowList given = {};                            ///< guests: the labeled rows of the whole group
  std::size_t rank = 0;                          ///< k
  bool is_gathered = false;                      ///< scored by the root
  std::shared_ptr<GatheredClass> gathered = {};  ///< at the root, if it was
};

/// What a selection is made from. What is by row has the own rows.
struct ClusterCandidates {
  const RoundSpec& spec;
  const ClusterPool& pool;
  const RoundInput& input;
  kernel::GuestFeatures& features;
  const RowList& labeled;                 ///< guests: all labeled rows of the pool, in their order
  const std::vector<ClassIndex>& labels;  ///< of these rows
  std::size_t batch = 0;
  std::span<const ClassIndex> own_labels = {};  ///< by own row; what is picked already counts as labeled
  std::vector<ClassIndex> predicted = {};
  std::vector<double> confidence = {};
  std::vector<double> margin = {};
  std::vector<double> probabilities = {};  ///< row after row
  std::vector<ClusterGroup> groups = {};   ///< one per class
  std::vector<double> pool_leverage = {};
};

/// The batch with rows of the whole pool, on every rank; with more rows by as many as are barred, which may be in it.
absl::StatusOr<select::Selection> SelectTogether(ClusterCandidates& candidates, const RoundStrategy& strategy);

// The processes that mpirun started, as a Communicator.

/// Whether this build has MPI (the CMake option FULCRUM_MPI).
bool HasMpi();

/// How many processes a launcher (mpirun, srun) started this one among, from its environment; 1 if there is none.
int LaunchedProcesses();

/// Which of them this one is, from 0.
int LaunchedRank();

/// Calls `work` with all processes of the launcher, or with OneProcess() if there is only this one.
///
/// The processes end together. An error that they agree on (AgreeOn) is returned at the root alone, and the others
/// return OK. If one fails by itself, for example out of memory, it prints a message with its rank and host, and ends
/// all others with `exit_code` of the error. FailedPrecondition if there are several processes and this build has no
/// MPI, if MPI does not know of the others, or if their builds differ. Call it once, from the main thread.
absl::Status RunInProcesses(const std::string& command, int (*exit_code)(const absl::Status&),
                            const std::function<absl::Status(const Communicator& peers)>& work);

}  // namespace fulcrum::pipeline
