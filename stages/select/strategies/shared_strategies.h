// The parts of strategies that rounds over several processes call (pipeline/cluster).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

// The strategy adaptive-herding: how it covers a pool. Pure functions, thread-safe.

/// The width, and a weight per reference.
struct CoverWeights {
  double width = 1;
  std::vector<double> weights = {};
};

/// From the squared distance of every reference to the nearest labeled row, and its margin.
CoverWeights AdaptiveCover(std::span<const double> nearest, std::span<const double> margins, double labels_per_class);

/// The margins that adaptive-herding uses if the predictions are those of another model, which come without: of least
/// squares on the labels, with targets +1 and -1 for one class against the rest. `labels` are those of `labeled`.
absl::StatusOr<std::vector<double>> MarginsOfLeastSquares(const kernel::Features& features,
                                                          const kernel::KernelFunction& kernel,
                                                          std::span<const RowIndex> labeled,
                                                          std::span<const ClassIndex> labels, std::size_t class_count,
                                                          std::span<const RowIndex> rows);

// The strategy hybrid over a pool that is spread over processes.
//
// Every rank computes how much doubt its own candidates would remove. The root ranks all of them, which takes 16 bytes
// per candidate, gathers the features of a shortlist and selects from it as one process does. Every rank makes the same
// calls; not thread-safe, loops run in parallel inside.

struct SharedHybrid {
  const Communicator& peers;
  kernel::GuestFeatures& features;     ///< gets the references as guests while they are needed
  kernel::KernelFunction kernel;       ///< of the classifier
  std::span<const RowIndex> labeled;   ///< guests: the labeled rows of the pool
  std::span<const ClassIndex> labels;  ///< of these rows
  std::size_t class_count = 0;
  std::span<const RowIndex> rows;    ///< the candidates of this process, ascending
  std::span<const double> leverage;  ///< of these rows, over the whole pool
  std::size_t first_row = 0;         ///< of the pool that this process has
  std::size_t batch = 1;
  std::uint64_t seed = 1;
};

/// The picks, with rows of the pool, on every rank. The same batch for any number of ranks.
absl::StatusOr<std::vector<Pick>> SelectHybridTogether(const SharedHybrid& shared);

}  // namespace fulcrum::select
