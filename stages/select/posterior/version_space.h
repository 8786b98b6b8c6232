// Samples from a version space: the vectors u in the unit ball with c_i . u >= 0 for every constraint c_i, which is a
// labeled example times its sign.
//
// Hit and run along the coordinate axes: from a point inside, move to a uniformly random point of the chord along a
// random axis. A move along an axis costs O(constraints), along a random direction O(constraints * dimensions), so a
// sample can use many more moves. Thread-safe; the same seed gives the same samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::select {

struct VersionSpaceSample {
  Matrix<double> vectors;  ///< one per row
  std::size_t dropped_count =
      0;  ///< constraints treated as label noise, because no vector was found that satisfies all
};

/// `constraints` has one row per constraint; its columns are the dimensions.
VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed);

// An orthonormal basis of the space spanned by some rows of a pool, computed from inner products only, so that it works
// for sparse and dense features: with anchors a_1..a_r and L L' their Gram matrix, the coordinates of x are L^-1
// (a_1.x, ..., a_r.x). Immutable and thread-safe after construction; keeps a reference to the features.

class SpanBasis {
 public:
  /// Processes `rows` in order and keeps those that add a direction.
  SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows);

  /// The rows that were kept; their number is the dimension of the space.
  std::span<const RowIndex> anchors() const { return anchors_; }
  /// Returns the coordinates of the projection of each row on the space.
  Matrix<double> Coordinates(std::span<const RowIndex> rows) const;
  /// Converts vectors in these coordinates, one per row, to weights of the anchors, in place.
  void ToAnchorWeights(MutableMatrixView vectors) const;

 private:
  const kernel::Features& features_;
  RowList anchors_;
  Matrix<double> lower_;  // its leading block is L
};

// Batches that distinguish hypotheses: the objective of near-optimal batch mode active learning (Chen and Krause 2013,
// generalized binary search). With equally likely hypotheses and labels that differ from the prediction of a hypothesis
// with probability `noise` (equally likely for all other classes), the expected mass left after observing the labels of
// a batch is
//   sum over label patterns y of p(y)^2,   p(y) = mean over h of prod_j P(y_j | h).
// Expanding the square over pairs of hypotheses turns the sum over all C^b patterns into a product over the batch:
//   mean over (h, h') of prod_j (a if h and h' agree on x_j, else d),
//   a = (1-noise)^2 + noise^2/(C-1),   d = 2 (1-noise) noise/(C-1) + (C-2) (noise/(C-1))^2.
// The product of a pair can only decrease, by less as the batch grows, so the reduction is submodular and greedy is
// lazy.
// Functions are thread-safe.

/// The class predicted for each example (row) by each hypothesis (column).
using PredictionTable = MatrixView<const std::uint16_t>;

struct LabelModel {
  std::size_t class_count = 2;
  double noise = 0.02;
};

/// Returns the expected mass left by the labels of all examples of the table.
double ExpectedRemainingMass(PredictionTable predictions, const LabelModel& model);

struct MassReduction {
  std::size_t example = 0;  ///< row of the table
  double reduction = 0;     ///< of the expected remaining mass
};

/// Selects, `batch` times, the example that leaves the smallest expected mass. Ties go to the smaller rows[i].
std::vector<MassReduction> ReduceMassGreedily(PredictionTable predictions, std::span<const RowIndex> rows,
                                              const LabelModel& model, std::size_t batch);

}  // namespace fulcrum::select
