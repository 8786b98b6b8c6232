// The passes over the rows of a class that landmarks need: their kernel with the landmarks summed (LandmarkGram), the
// leading vectors at any rows, and the scores with a look at how good they are.
//
// All of them stream the rows in blocks of float32 kernel tiles and keep nothing of the size of the class but its
// scores. Sums are taken in a fixed order, so that results do not depend on the number of threads. Functions are
// thread-safe.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/float_columns.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::leverage {

// The pass that turns the leading vectors of a class into scores, and estimates their residual from a few sampled rows.

/// The leading vectors of a class, known by what they are at a block of its rows.
struct LeadingVectors {
  std::span<const double> values = {};  ///< theta_j; needed for residuals only
  /// u_j(x) of a block of the rows, the one numbered `first` and those after it, one row per x. Thread-safe.
  std::function<Matrix<float>(std::span<const RowIndex> block, std::size_t first)> of_block = {};
};

struct LandmarkPass {
  std::vector<double> scores = {};  ///< l(x) = sum over j of u_j(x)^2, in the order of the rows
  double residual = 0;              ///< |K u_j - theta_j u_j| / theta_1, the largest over j, from the sampled rows
};

/// `sample` are some of `rows`, both ascending, or empty if the residual is not needed.
LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const LeadingVectors& vectors, std::span<const RowIndex> rows, std::span<const RowIndex> sample,
                       const BlockStream& stream);

// Functions that are sums of kernel functions, evaluated at blocks of rows: f_j(x) = sum over s of c(s, j) K(s, x).
//
// The tiles of the kernel are multiplied while they are in the cache, and nothing of them is kept. Pure functions,
// thread-safe.

/// Rows of a block that the functions below are best called with.
inline constexpr std::size_t kExtendedRows = 256;

/// values(i, j) = f_j(row i of the block); `coefficients` has a row for every column of the kernel. One thread.
void ExtendToBlock(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                   const kernel::FloatBlock& block, MatrixView<float> values);

/// The same for many rows: values(i, j) = f_j(rows[i]).
Matrix<float> ExtendToRows(const kernel::FloatColumns& columns, MatrixView<const float> coefficients,
                           std::span<const RowIndex> rows, const BlockStream& stream);

// The leading vectors of a class as its landmarks show them, at any rows.
//
// A landmark's own kernel function lies wholly in the span, so that it is seen better than all other rows and gets too
// large a score: of a large isotropic class the best rows would be landmarks nearly without exception. It is shown as
// it would be if it were none: with r_s the part of K(s, s) that the other landmarks do not see, u_j(s) - r_s P(s, j),
// P the projection (the leave-one-out residual of a kernel regression; what s does to the eigenvectors themselves is
// left in). Pure functions, thread-safe.

struct LandmarkResiduals {
  const kernel::FloatColumns* landmarks = nullptr;
  const Matrix<float>* projection = nullptr;
  std::span<const double> unseen = {};  ///< r_s by landmark; empty: landmarks are shown as they lie in the span
};

/// Refers to what `view` refers to. `values` are needed for residuals only.
LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values = {});

// The sum of c(x) c(x)' over the rows x of a class, c(x) = K(x, S) being a row's kernel with the landmarks S.
//
// All that Rayleigh-Ritz on the landmarks' span needs to know of the class, in n_s x n_s numbers whatever the number of
// rows. Rows can be added and taken away again, so that a round touches only those whose class changed. Tiles are
// float32, sums are doubles, taken in a fixed order: the result does not depend on the number of threads. Not
// thread-safe; its loops run in parallel inside.

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
  /// The kernel of some rows with the landmarks.
  void WriteKernel(std::span<const RowIndex> rows, MatrixView<float> out) const;
  void AddProducts(MatrixView<const float> values, double sign);

  const kernel::FloatColumns& columns_;
  Matrix<double> upper_;  // tiles on and above the diagonal
};

}  // namespace fulcrum::leverage
