// The rows of one process, and copies of a few rows of other processes behind them: the guests.
//
// Passes over the rows of a process need some rows of the whole pool as columns of kernels: labeled rows, landmarks,
// picks. They become guests, with row numbers from own_rows() on, so that kernels between both kinds are computed as
// those of one pool. Values are bit for bit those of the process that sent them.
//
// Dense features only. Guests are added and dropped between passes; otherwise immutable and thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::kernel {

class GuestFeatures final : public Features {
 public:
  /// Keeps a reference to `own`, which must outlive it.
  explicit GuestFeatures(const Features& own);

  std::size_t own_rows() const { return own_rows_; }
  /// Adds rows; returns their row numbers.
  RowList Add(ConstMatrixView rows);
  /// Forgets the guests from this row number on.
  void DropFrom(std::size_t first);

  FeatureKind kind() const override { return FeatureKind::kDense; }
  Precision precision() const override { return own_.precision(); }
  std::size_t dims() const override { return own_.dims(); }
  PackedRows Pack(std::span<const RowIndex> rows) const override;
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override;
  std::size_t bytes() const override { return own_.bytes() + guests_.size() * sizeof(double); }

 private:
  std::span<const double> GuestAt(RowIndex row) const {
    return std::span(guests_).subspan((row - own_rows_) * dims(), dims());
  }

  const Features& own_;
  std::size_t own_rows_;
  std::vector<double> guests_;  // row after row
};

/// The named rows of each rank, one rank after the other, on every rank (or at the root alone).
Matrix<double> ShareRows(const Communicator& peers, const Features& features, std::span<const RowIndex> rows);
Matrix<double> GatherRows(const Communicator& peers, const Features& features, std::span<const RowIndex> rows);

}  // namespace fulcrum::kernel
