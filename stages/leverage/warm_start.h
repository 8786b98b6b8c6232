// Last round's subspace, carried over to this round's rows.
//
// Between rounds a class group loses and gains a few rows. Those that stay keep their entries; a newcomer's
// are extended from them (Nystroem: u(x) = K(x, .) u / lambda), which is where the eigenvectors would put it.
// The kernel times the subspace is carried over too: only the terms of those that left and entered are computed,
// so a start costs nothing like a product with the kernel. Not thread-safe.
#pragma once

#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/row_set_kernel.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

struct StartSubspace {
  Matrix<double> vectors;      ///< vectors are rows; empty: start cold
  Matrix<double> multiplied;   ///< the vectors times the kernel matrix, or empty
  bool dense_at_once = false;  ///< there is nothing to start from: the dense solver will be faster again
};

class WarmStart {
 public:
  /// Keeps the vectors of `eigen`, whose rows belong to the pool rows `rows`.
  void Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen);

  /// A start for the rows of `kernel` now; empty where nothing is remembered or too many rows changed for it to help.
  StartSubspace For(const kernel::RowSetKernel& kernel) const;

 private:
  struct Change;
  Change CompareRows(const kernel::RowSetKernel& kernel) const;
  /// Entries of vectors over the rows then, moved to the rows now; zero for newcomers.
  Matrix<double> CarryEntries(const Change& change, ConstMatrixView old) const;
  /// Eigenvalue of a remembered vector, beyond the rank too.
  double RitzValue(std::size_t index) const;
  void ExtendToNewcomers(const Change& change, Matrix<double>& vectors) const;
  bool CanCarryProducts(const kernel::RowSetKernel& kernel, const Change& change) const;
  Matrix<double> CarryProducts(const kernel::RowSetKernel& kernel, const Change& change, ConstMatrixView vectors) const;

  RowList rows_;
  linalg::TopEigen eigen_;
  std::size_t dense_rounds_ = 0;  // in a row
};

}  // namespace fulcrum::leverage
