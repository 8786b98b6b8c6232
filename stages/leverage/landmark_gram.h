// The sum of c(x) c(x)' over the rows x of a class, c(x) = K(x, S) being a row's kernel with the landmarks S.
//
// All that Rayleigh-Ritz on the landmarks' span needs to know of the class, in n_s x n_s numbers whatever the number of
// rows. Rows can be added and taken away again, so that a round touches only those whose class changed. Tiles are
// float32, sums are doubles, taken in a fixed order: the result does not depend on the number of threads. Not
// thread-safe; its loops run in parallel inside.
#pragma once

#include <span>

#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/float_columns.h"

namespace fulcrum::leverage {

class LandmarkGram {
 public:
  /// Of no rows. `columns` (the landmarks) must outlive it.
  explicit LandmarkGram(const kernel::FloatColumns& columns);

  void Add(std::span<const RowIndex> rows, const BlockStream& stream) { Accumulate(rows, 1.0, stream); }
  void Subtract(std::span<const RowIndex> rows, const BlockStream& stream) { Accumulate(rows, -1.0, stream); }
  void Clear();

  /// Both triangles, times a factor.
  Matrix<double> Symmetric(double factor = 1) const;

 private:
  void Accumulate(std::span<const RowIndex> rows, double sign, const BlockStream& stream);
  /// The kernel of some rows with the landmarks, a row a row.
  void WriteKernel(std::span<const RowIndex> rows, MatrixView<float> out) const;
  void AddProducts(MatrixView<const float> values, double sign);

  const kernel::FloatColumns& columns_;
  Matrix<double> upper_;  // tiles on and above the diagonal
};

}  // namespace fulcrum::leverage
