// K(rows, support) * coefficients without K(rows, support) in memory: each tile of the kernel is multiplied and
// forgotten. Tiles have a fixed size and run under oneTBB, so values do not depend on the number of threads. If the
// precision of the features is float (a pool that is not in memory), kernel values are float32 and the sums are
// doubles.
#pragma once

#include <memory>
#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::classify {

/// The support side of a kernel product: examples and what each weighs in every output column.
struct WeightedRows {
  const kernel::Features* features = nullptr;
  std::span<const RowIndex> rows;
  ConstMatrixView coefficients;  ///< rows x columns
};

/// The product prepared for any rows of `features`: what depends on the support side alone is computed once.
/// Thread-safe after construction. Refers to everything it was made of.
class KernelProduct {
 public:
  KernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support, const kernel::Features& features);
  ~KernelProduct();

  /// Rows in memory, as the product reads them.
  using Block = kernel::TileRows;
  /// Reads rows, on the calling thread.
  Block Read(std::span<const RowIndex> rows) const;

  /// out(i, p) = offsets[p] + sum_s K(x_{rows[i]}, z_{support.rows[s]}) coefficients(s, p), or added to what `out`
  /// holds if `accumulate` is set. One thread, tile by tile; the values of a row are the same in any block that begins
  /// at a multiple of kBlockRows.
  void Compute(std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
               MutableMatrixView out) const;
  /// The same for rows that were read before.
  void Compute(const Block& block, std::span<const double> offsets, bool accumulate, MutableMatrixView out) const;

  /// A block should have a multiple of so many rows: it consists of whole tiles then.
  static constexpr std::size_t kBlockRows = 512;

 private:
  class Sums;
  template <typename T>
  class SumsOfTiles;

  std::unique_ptr<Sums> sums_;
};

/// The same for all of `rows` under oneTBB.
void ComputeKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                          const kernel::Features& features, std::span<const RowIndex> rows,
                          std::span<const double> offsets, bool accumulate, MutableMatrixView out);

}  // namespace fulcrum::classify
