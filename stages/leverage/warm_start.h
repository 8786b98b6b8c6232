// Last round's subspace, carried over to this round's rows.
//
// Between rounds a class group loses and gains a few rows. Rows that stay keep their entries; those of a new row are
// extended from them (Nystroem: u(x) = K(x, .) u / lambda). The kernel times the subspace is carried over too: only the
// terms of rows that left and entered are computed, so that a start costs far less than a product with the kernel. It
// needs only the kernel's rows for those that left and entered, whether the matrix is in memory or recomputed. Not
// thread-safe.
#pragma once

#include <span>

#include "absl/functional/function_ref.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/kernel/row_set_kernel.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

struct StartSubspace {
  Matrix<double> vectors;      ///< vectors are rows; empty: start cold
  Matrix<double> multiplied;   ///< the vectors times the kernel matrix, or empty
  bool dense_at_once = false;  ///< the dense solver will be faster again
};

class WarmStart {
 public:
  /// Keeps the vectors of `eigen`, whose rows belong to the pool rows `rows`.
  void Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen);

  /// A start for the current rows of `kernel`; empty if nothing is remembered or too many rows changed.
  StartSubspace For(const kernel::RowSetKernel& kernel) const;
  StartSubspace For(const kernel::TiledKernel& kernel) const;

 private:
  struct Change;
  /// The kernel of `count` of the new (or removed) rows, from number `first` on, with all current rows.
  using KernelRows = absl::FunctionRef<Matrix<double>(std::size_t first, std::size_t count)>;

  Change CompareRows(std::span<const RowIndex> rows_now) const;
  /// Whether a start would not help, or nothing is remembered.
  bool TooMuchIsNew(const Change& change) const;
  /// Entries of vectors over the previous rows, moved to the current rows; zero for new rows.
  Matrix<double> CarryEntries(const Change& change, ConstMatrixView old) const;
  StartSubspace CarryVectors(const Change& change, KernelRows of_newcomers) const;
  void ExtendToNewcomers(const Change& change, KernelRows of_newcomers, Matrix<double>& vectors) const;
  Matrix<double> CarryProducts(const Change& change, ConstMatrixView vectors, KernelRows of_newcomers,
                               KernelRows of_departed) const;

  RowList rows_;
  linalg::TopEigen eigen_;
  std::size_t dense_rounds_ = 0;  // in a row
};

}  // namespace fulcrum::leverage
