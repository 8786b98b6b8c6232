// The pool's features as the kernels read them.
//
// Kernels need inner products between rows and squared norms. Features pack the rows that a product needs next to each
// other in memory (PackedRows), and products run on packed rows. Immutable and thread-safe after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {

/// How the rows of a pool are known.
enum class FeatureKind {
  kDense,          ///< all numbers of a row
  kSparse,         ///< the non-zero numbers of a row
  kInnerProducts,  ///< only the inner products between rows
};

/// The precision of kernel values in a pass over all rows of a pool.
enum class Precision { kFloat, kDouble };

class DenseFeatures;
class InnerProductFeatures;
class SparseFeatures;

/// Some rows of a pool in double precision, ready for many products. Refers to the features that packed it, which must
/// outlive it. Thread-safe for reading.
class PackedRows {
 public:
  /// Rows of a sparse pool, with offsets of the width that the products want.
  struct SparseCopy {
    std::size_t cols = 0;
    std::vector<int> offsets = {0};
    std::vector<int> columns = {};
    std::vector<double> values = {};
  };

  PackedRows() = default;
  /// Dense rows: a copy, or rows of the pool that are adjacent already.
  explicit PackedRows(Matrix<double> copy);
  explicit PackedRows(ConstMatrixView in_place) : rows_(Dense{{}, in_place}) {}
  explicit PackedRows(SparseCopy rows) : rows_(std::move(rows)) {}
  PackedRows(const InnerProductFeatures& source, std::span<const RowIndex> rows);

  std::size_t size() const;
  /// The numbers of all rows, zeros included. Throws std::logic_error if only inner products are known.
  Matrix<double> ToDense() const;

  /// out(i, j) = the inner product of row a_first + i of `a` and row b_first + j of `b`, for as many rows as `out` has.
  /// Both are of the same kind and dimension; throws std::bad_variant_access if not. One thread; callers tile.
  friend void MultiplyRows(const PackedRows& a, std::size_t a_first, const PackedRows& b, std::size_t b_first,
                           MutableMatrixView out);

 private:
  struct Dense {
    Matrix<double> memory;  // empty if the values are in the pool
    ConstMatrixView values;
  };
  struct Named {
    const InnerProductFeatures* source;
    RowList rows;
  };

  std::variant<Dense, SparseCopy, Named> rows_;
};

void MultiplyRows(const PackedRows& a, std::size_t a_first, const PackedRows& b, std::size_t b_first,
                  MutableMatrixView out);

class Features {
 public:
  virtual ~Features() = default;
  virtual FeatureKind kind() const = 0;
  /// kFloat for a pool that is too large for better: one that is not in memory.
  virtual Precision precision() const { return Precision::kDouble; }
  std::size_t rows() const { return squared_norms_.size(); }
  virtual std::size_t dims() const = 0;
  /// |x_i|^2 of every row.
  std::span<const double> squared_norms() const { return squared_norms_; }
  /// The named rows, in their order.
  virtual PackedRows Pack(std::span<const RowIndex> rows) const = 0;
  /// Writes the named rows in float32, on the calling thread. Throws std::logic_error if only inner products are known.
  virtual void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const = 0;
  /// These features if they are a matrix in memory; null if they are not, also if that is on the disk.
  virtual const DenseFeatures* in_memory() const { return nullptr; }
  /// These features if they are sparse; otherwise null.
  virtual const SparseFeatures* sparse() const { return nullptr; }
  /// The memory that the rows take.
  virtual std::size_t bytes() const { return sizeof(double) * rows() * dims(); }

 protected:
  std::vector<double> squared_norms_;
};

/// Squared norms of the named rows.
std::vector<double> SquaredNormsOf(const Features& features, std::span<const RowIndex> rows);

/// Features in a dense matrix, one row per example. Owns it, together with the features that continue it.
class DenseFeatures final : public Features {
 public:
  explicit DenseFeatures(Matrix<double> values, Precision precision = Precision::kDouble);
  ~DenseFeatures() override;
  DenseFeatures(const DenseFeatures&) = delete;
  DenseFeatures& operator=(const DenseFeatures&) = delete;
  /// These rows with more of them behind. If the matrix has memory behind its rows, both share it, and only the new
  /// rows are copied; otherwise all are, into a matrix of twice the capacity. Thread-safe.
  std::unique_ptr<DenseFeatures> With(ConstMatrixView more) const;
  FeatureKind kind() const override { return FeatureKind::kDense; }
  const DenseFeatures* in_memory() const override { return this; }
  Precision precision() const override { return precision_; }
  std::size_t dims() const override { return values_.cols(); }
  PackedRows Pack(std::span<const RowIndex> rows) const override;
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override;
  ConstMatrixView values() const { return values_; }

 private:
  /// What several features share. Rows are written once, before any features have them.
  struct Memory {
    std::mutex mutex;
    Matrix<double> rows;
    std::size_t used = 0;  ///< rows that some features have; guarded by mutex
  };

  DenseFeatures(std::shared_ptr<Memory> memory, std::size_t rows, Precision precision);
  void ComputeNorms(std::size_t before);

  std::shared_ptr<Memory> memory_;
  ConstMatrixView values_;
  std::size_t own_first_ = 0;  // the first row that no features had before these
  Precision precision_;
};

/// Features of a sparse pool. Only kernel blocks are dense. Owns the matrix.
class SparseFeatures final : public Features {
 public:
  explicit SparseFeatures(SparseMatrix values);
  FeatureKind kind() const override { return FeatureKind::kSparse; }
  const SparseFeatures* sparse() const override { return this; }
  std::size_t dims() const override { return values_.cols; }
  PackedRows Pack(std::span<const RowIndex> rows) const override;
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override;
  std::size_t bytes() const override {
    return values_.values.size() * (sizeof(double) + sizeof(std::int32_t)) + rows() * sizeof(std::size_t);
  }
  const SparseMatrix& values() const { return values_; }

 private:
  SparseMatrix values_;
};

/// Features of which only inner products are known, for example because they were computed in advance.
class InnerProductFeatures : public Features {
 public:
  FeatureKind kind() const final { return FeatureKind::kInnerProducts; }
  PackedRows Pack(std::span<const RowIndex> rows) const final { return {*this, rows}; }
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const final;
  /// out(i, j) = x_{a[i]} . x_{b[j]}. Both name rows of the same examples, `b` possibly by other features of them.
  /// Thread-safe.
  virtual void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                                  MutableMatrixView out) const = 0;
};

// The rows of one process, and copies of a few rows of other processes behind them: the guests.
//
// Passes over the rows of a process need some rows of the whole pool as columns of kernels: labeled rows, landmarks,
// picks. They become guests, with row numbers from own_rows() on, so that kernels between both kinds are computed as
// those of one pool. Values are bit for bit those of the process that sent them.
//
// Dense features only. Guests are added and dropped between passes; otherwise immutable and thread-safe.

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
