// The state of transductive experimental design: a kernel matrix K deflated by the examples taken so far,
//   K' = K - K(:,i) K(i,:) / (K(i,i) + mu) for one after the other = K - V V',
// known by its column norms, its diagonal and V alone, never formed. The order of deflation does not matter.
// Not thread-safe; the pool's kernel must outlive it.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/select/pool_kernel.h"

namespace fulcrum::select {

class ExperimentalDesign {
 public:
  /// Deflated by `taken` already. One pass over the pool's kernel. `further` is how often Take will be called.
  static absl::StatusOr<ExperimentalDesign> Start(const PoolKernel& kernel, double mu, std::span<const RowIndex> taken,
                                                  std::size_t further);

  /// |K'(:,i)|^2 / (K'(i,i) + mu): how much example i would explain of the whole pool.
  double Score(RowIndex row) const { return column_norms_[row] / (diagonal_[row] + mu_); }

  /// Deflates by this example. One pass over the pool's kernel.
  void Take(RowIndex row);

 private:
  ExperimentalDesign(const PoolKernel& kernel, double mu, std::size_t capacity);
  absl::Status Deflate(std::span<const RowIndex> taken);
  void ComputeColumnNorms();
  ConstMatrixView vectors() const { return vectors_.view().Cols(0, taken_); }

  const PoolKernel* kernel_;
  double mu_;
  std::vector<double> column_norms_;  // |K'(:,i)|^2
  std::vector<double> diagonal_;      // K'(i,i)
  Matrix<double> vectors_;            // V, a column an example taken
  std::size_t taken_ = 0;
};

}  // namespace fulcrum::select
