#include "stages/leverage/warm_start.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "stages/kernel/kernel_block.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/tall_skinny.h"

namespace fulcrum::leverage {
namespace {

// With more newcomers than this the old subspace says too little, and a vector that only newcomers know of
// could be missed.
constexpr double kLargestNewShare = 0.2;
// With more changes than this, multiplying anew is as fast as correcting the old products.
constexpr double kLargestCorrectedShare = 0.02;

Matrix<double> GatherRows(ConstMatrixView source, std::span<const std::size_t> rows) {
  Matrix<double> gathered(rows.size(), source.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(source.row(rows[i]).data(), source.cols(), gathered.row(i).data());
  }
  return gathered;
}

}  // namespace

/// Who stayed, came and left, as positions now and then.
struct WarmStart::Change {
  static constexpr std::size_t kNew = ~std::size_t{0};
  std::vector<std::size_t> old_position;  // of each row now; kNew for newcomers
  std::vector<std::size_t> newcomers;     // positions now
  std::vector<std::size_t> departed;      // positions then
};

void WarmStart::Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen) {
  rows_.assign(rows.begin(), rows.end());
  eigen_ = std::move(eigen);
}

WarmStart::Change WarmStart::CompareRows(const kernel::RowSetKernel& kernel) const {
  absl::flat_hash_map<RowIndex, std::size_t> positions;
  positions.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) positions.emplace(rows_[i], i);
  Change change;
  for (std::size_t i = 0; i < kernel.rows().size(); ++i) {
    const auto found = positions.find(kernel.rows()[i]);
    if (found == positions.end()) change.newcomers.push_back(i);
    change.old_position.push_back(found == positions.end() ? Change::kNew : found->second);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!kernel.Contains(rows_[i])) change.departed.push_back(i);
  }
  return change;
}

void WarmStart::ExtendToNewcomers(const kernel::RowSetKernel& kernel, const Change& change,
                                  Matrix<double>& vectors) const {
  // All extensions are taken from the rows that stayed (newcomers are still zero) before any of them is written.
  Matrix<double> extended(change.newcomers.size(), vectors.cols());
  for (std::size_t i = 0; i < change.newcomers.size(); ++i) {
    linalg::Gemv(linalg::Transpose::kYes, 1.0, vectors.view(), kernel.matrix().row(change.newcomers[i]), 0.0,
                 extended.row(i));
  }
  for (std::size_t i = 0; i < change.newcomers.size(); ++i) {
    for (std::size_t j = 0; j < vectors.cols(); ++j) {
      const double eigenvalue = eigen_.values[std::min(j, eigen_.values.size() - 1)];
      vectors(change.newcomers[i], j) = eigenvalue > 0 ? extended(i, j) / eigenvalue : 0.0;
    }
  }
}

Matrix<double> WarmStart::CarryProducts(const kernel::RowSetKernel& kernel, const Change& change,
                                        ConstMatrixView vectors) const {
  const std::size_t m = vectors.rows();
  Matrix<double> multiplied = Matrix<double>::Zero(m, vectors.cols());
  for (std::size_t i = 0; i < m; ++i) {
    if (change.old_position[i] == Change::kNew) continue;
    std::copy_n(eigen_.multiplied.row(change.old_position[i]).data(), vectors.cols(), multiplied.row(i).data());
  }
  if (!change.departed.empty()) {
    RowList departed_rows;
    for (std::size_t position : change.departed) departed_rows.push_back(rows_[position]);
    Matrix<double> to_departed(m, departed_rows.size());
    kernel::ComputeKernelBlock(kernel.kernel(), kernel.features(), kernel.rows(), departed_rows, to_departed.view());
    linalg::TallMultiply(-1.0, to_departed.view(), GatherRows(eigen_.vectors.view(), change.departed).view(), 1.0,
                         multiplied.view());
  }
  for (std::size_t newcomer : change.newcomers) {
    // The kernel is symmetric: its column is its row.
    const auto column = kernel.matrix().row(newcomer);
    for (std::size_t i = 0; i < m; ++i) linalg::Axpy(column[i], vectors.row(newcomer), multiplied.row(i));
  }
  for (std::size_t newcomer : change.newcomers) {
    linalg::Gemv(linalg::Transpose::kYes, 1.0, vectors, kernel.matrix().row(newcomer), 0.0, multiplied.row(newcomer));
  }
  return multiplied;
}

StartSubspace WarmStart::For(const kernel::RowSetKernel& kernel) const {
  StartSubspace start;
  if (rows_.empty() || kernel.rows().empty()) return start;
  const Change change = CompareRows(kernel);
  const auto m = static_cast<double>(kernel.rows().size());
  if (static_cast<double>(change.newcomers.size()) > kLargestNewShare * m) return start;
  start.vectors = Matrix<double>::Zero(kernel.rows().size(), eigen_.vectors.cols());
  for (std::size_t i = 0; i < kernel.rows().size(); ++i) {
    if (change.old_position[i] == Change::kNew) continue;
    std::copy_n(eigen_.vectors.row(change.old_position[i]).data(), start.vectors.cols(), start.vectors.row(i).data());
  }
  ExtendToNewcomers(kernel, change, start.vectors);
  const auto changes = static_cast<double>(change.newcomers.size() + change.departed.size());
  if (!eigen_.multiplied.empty() && changes <= kLargestCorrectedShare * m) {
    start.multiplied = CarryProducts(kernel, change, start.vectors.view());
  }
  return start;
}

}  // namespace fulcrum::leverage
