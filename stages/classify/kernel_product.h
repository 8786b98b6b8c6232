// K(rows, support) * coefficients without ever holding K(rows, support): a tile of the kernel is computed, multiplied
// and forgotten. Tiles have a fixed size and run under oneTBB, so values do not depend on the number of threads. Where
// the features prefer it (a pool that is not in memory), kernel values are float32 and only the sums are doubles.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/float_columns.h"
#include "stages/kernel/kernel_function.h"

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

  /// Rows in memory, as the product reads them: copied in float32 if the pool is not in memory, else their numbers.
  struct Block {
    std::span<const RowIndex> rows = {};
    std::vector<kernel::FloatBlock> copied = {};  ///< by tile; empty if the pool is in memory
  };
  /// Reads rows, on the calling thread. Keeps a reference to `rows`.
  Block Read(std::span<const RowIndex> rows) const;

  /// out(i, p) = offsets[p] + sum_s K(x_{rows[i]}, z_{support.rows[s]}) coefficients(s, p), or added to what `out`
  /// holds where `accumulate` is set. One thread, tile by tile; the values of a row are the same in any block that
  /// begins at a multiple of kTileRows.
  void Compute(std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
               MutableMatrixView out) const;
  /// The same for rows that were read before.
  void Compute(const Block& block, std::span<const double> offsets, bool accumulate, MutableMatrixView out) const;

  /// Rows of a tile; a block of many is what a thread should take at once.
  static constexpr std::size_t kTileRows = 512;

 private:
  class Tiles;
  class DoubleTiles;
  class FloatTiles;

  std::unique_ptr<Tiles> tiles_;
};

/// The same for all of `rows` under oneTBB.
void ComputeKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                          const kernel::Features& features, std::span<const RowIndex> rows,
                          std::span<const double> offsets, bool accumulate, MutableMatrixView out);

}  // namespace fulcrum::classify
