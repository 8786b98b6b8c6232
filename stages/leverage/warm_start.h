// Last round's subspace, carried over to this round's rows.
//
// Between rounds a class group loses and gains a few rows. Those that stay keep their entries; a newcomer's
// are extended from them (Nystroem: u(x) = K(x, .) u / lambda), which is where the eigenvectors would
// put it if it had been there. Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

class WarmStart {
 public:
  /// Keeps the vectors of `eigen`, whose rows belong to the pool rows `rows`.
  void Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen);
  void Forget();

  /// A start for the kernel matrix of `rows` now, or an empty matrix where nothing is remembered or too
  /// many rows are new for it to help.
  Matrix<double> SubspaceFor(std::span<const RowIndex> rows, ConstMatrixView kernel) const;

 private:
  RowList rows_;
  linalg::TopEigen eigen_;
};

}  // namespace fulcrum::leverage
