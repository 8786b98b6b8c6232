// The kernel matrix of a changing set of rows: a class group, or the labeled examples.
//
// The pool's kernel does not change between rounds, only the members of the set. Update() computes the rows and columns
// of new members and moves a few others into the places of removed ones, so that a round costs O(changed * m) instead
// of O(m^2). Not thread-safe for writing; concurrent reads are.
#pragma once

#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::kernel {

class RowSetKernel {
 public:
  struct UpdateStats {
    std::size_t entered = 0;
    std::size_t left = 0;
    bool rebuilt = false;  ///< too much changed for an update in place
  };

  /// The rows that the last Update removed and their kernel with the previous rows, for corrections of sums over the
  /// set.
  struct Departed {
    RowList others;         ///< all rows of the set before the update
    Matrix<double> values;  ///< removed rows (in the order of others) x others; empty if too many were removed
  };

  /// Keeps a reference to `features`, which must outlive it.
  RowSetKernel(const KernelFunction& kernel, const Features& features);

  /// Replaces the features by the same features with rows appended, which must outlive it; computed values stay.
  void MoveTo(const Features& grown);

  /// Makes the set equal to `rows` (any order, no repeats). The order of rows() may differ: rows that stay keep their
  /// places if possible.
  UpdateStats Update(std::span<const RowIndex> rows);

  const Departed& departed() const { return departed_; }
  /// The row behind each row and column of matrix().
  std::span<const RowIndex> rows() const { return rows_; }
  /// Position of a pool row in rows(); the row must be in the set.
  std::size_t PositionOf(RowIndex row) const { return position_[row]; }
  bool Contains(RowIndex row) const { return position_[row] != kAbsent; }
  /// Both triangles.
  ConstMatrixView matrix() const;
  const KernelFunction& kernel() const { return kernel_; }
  const Features& features() const { return *features_; }

 private:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  void Rebuild(std::span<const RowIndex> rows);
  void RememberDeparted(std::span<const std::size_t> holes);
  void FillHoles(std::span<const RowIndex> entering, std::span<const std::size_t> holes);
  void MoveLastInto(std::span<const std::size_t> holes);
  void ComputeRows(std::span<const std::size_t> positions);
  void EnsureCapacity(std::size_t size);

  KernelFunction kernel_;
  const Features* features_;
  RowList rows_;
  std::vector<std::uint32_t> position_;  // by pool row
  Departed departed_;
  Matrix<double> storage_;  // capacity x capacity; the set's matrix is its leading block
};

}  // namespace fulcrum::kernel
