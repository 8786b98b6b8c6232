// One pair of classes during training: its examples, its bounds and, once solved, its multipliers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/classify/smo_solver.h"
#include "stages/classify/svm_parameters.h"
#include "stages/core/rows.h"
#include "stages/kernel/row_set_kernel.h"

namespace fulcrum::classify {

/// A value; `positions` are valid until the kernel's set of rows changes, everything else is.
struct PairProblem {
  ClassIndex first = 0;                  ///< y = +1
  ClassIndex second = 0;                 ///< y = -1
  std::vector<std::uint32_t> positions;  ///< in the kernel of the labeled rows, ascending
  RowList rows;                          ///< of the pool
  std::vector<double> y;
  std::vector<double> c;
  SmoSolution solution;
  std::size_t starts_since_full_products = 0;  ///< warm starts whose products were only updated (svm_warm_start.h)

  SmoProblem View(const kernel::RowSetKernel& gram) const { return {gram.matrix(), positions, y, c}; }
};

/// The examples of two classes among the rows of `gram`, in the order of the matrix: with two classes, all of it,
/// so the solver reads rows in place. `labels` are by pool row.
PairProblem MakePairProblem(ClassIndex first, ClassIndex second, const kernel::RowSetKernel& gram,
                            std::span<const ClassIndex> labels, const SvmParameters& parameters);

/// The pair's examples by ascending pool row, which does not depend on the order of the matrix.
std::vector<std::uint32_t> ExamplesByRow(const PairProblem& pair);

}  // namespace fulcrum::classify
