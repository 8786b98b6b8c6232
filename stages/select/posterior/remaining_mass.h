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
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::select {

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
