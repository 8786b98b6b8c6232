#include "stages/leverage/warm_start.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/vector_block.h"

namespace fulcrum::leverage {
namespace {

// With more newcomers than this the old subspace says too little, and a vector that only newcomers know of
// could be missed.
constexpr double kLargestNewShare = 0.2;

// Spectra change slowly: where the dense solver had to take over it will have to again, but not for ever.
constexpr std::size_t kDenseRoundsBetweenTries = 16;

}  // namespace

/// Who stayed, came and left, as positions now and then.
struct WarmStart::Change {
  static constexpr std::size_t kNew = ~std::size_t{0};
  std::vector<std::size_t> old_position;  // of each row now; kNew for newcomers
  std::vector<std::size_t> newcomers;     // positions now
  std::vector<std::size_t> departed;      // positions then
  Matrix<double> newcomer_kernel;         // newcomers x rows now
};

void WarmStart::Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen) {
  rows_.assign(rows.begin(), rows.end());
  eigen_ = std::move(eigen);
  dense_rounds_ = eigen_.engine == "dense" ? dense_rounds_ + 1 : 0;
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

Matrix<double> WarmStart::CarryEntries(const Change& change, ConstMatrixView old) const {
  Matrix<double> carried(old.rows(), change.old_position.size());
  for (std::size_t i = 0; i < old.rows(); ++i) {
    for (std::size_t j = 0; j < carried.cols(); ++j) {
      carried(i, j) = change.old_position[j] == Change::kNew ? 0.0 : old(i, change.old_position[j]);
    }
  }
  return carried;
}

double WarmStart::RitzValue(std::size_t index) const {
  if (index < eigen_.values.size() || eigen_.multiplied.empty()) return eigen_.values[index];
  return linalg::Dot(eigen_.vectors.row(index), eigen_.multiplied.row(index));
}

void WarmStart::ExtendToNewcomers(const Change& change, Matrix<double>& vectors) const {
  // Taken from the rows that stayed: the newcomers' own entries are still zero.
  Matrix<double> extended(vectors.rows(), change.newcomers.size());
  linalg::InnerProducts(vectors.view(), change.newcomer_kernel.view(), extended.view());
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const double eigenvalue = RitzValue(i);
    for (std::size_t j = 0; j < change.newcomers.size(); ++j) {
      vectors(i, change.newcomers[j]) = eigenvalue > 0 ? extended(i, j) / eigenvalue : 0.0;
    }
  }
}

Matrix<double> WarmStart::CarryProducts(const kernel::RowSetKernel& kernel, const Change& change,
                                        ConstMatrixView vectors) const {
  Matrix<double> multiplied = CarryEntries(change, eigen_.multiplied.view());
  const std::size_t width = vectors.rows();
  if (!change.departed.empty()) {
    Matrix<double> weights(width, change.departed.size());
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < change.departed.size(); ++j) weights(i, j) = eigen_.vectors(i, change.departed[j]);
    }
    const Matrix<double> to_departed = CarryEntries(change, kernel.departed().values.view());
    linalg::Combine(-1.0, weights.view(), to_departed.view(), 1.0, multiplied.view());
  }
  if (!change.newcomers.empty()) {
    Matrix<double> weights(width, change.newcomers.size());
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < change.newcomers.size(); ++j) weights(i, j) = vectors(i, change.newcomers[j]);
    }
    linalg::Combine(1.0, weights.view(), change.newcomer_kernel.view(), 1.0, multiplied.view());
    linalg::InnerProducts(vectors, change.newcomer_kernel.view(), weights.view());
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < change.newcomers.size(); ++j) multiplied(i, change.newcomers[j]) = weights(i, j);
    }
  }
  return multiplied;
}

bool WarmStart::CanCarryProducts(const kernel::RowSetKernel& kernel, const Change& change) const {
  if (eigen_.multiplied.empty()) return false;
  if (change.departed.empty()) return true;
  // The kernel's record of who left must speak of the same rows as ours.
  return !kernel.departed().values.empty() && kernel.departed().others == rows_;
}

StartSubspace WarmStart::For(const kernel::RowSetKernel& kernel) const {
  StartSubspace start;
  if (rows_.empty() || kernel.rows().empty()) return start;
  Change change = CompareRows(kernel);
  const std::size_t m = kernel.rows().size();
  if (static_cast<double>(change.newcomers.size()) > kLargestNewShare * static_cast<double>(m)) return start;
  // Only now is it known that these are nearly the rows that the dense solver had: a class of seventy rows, which it
  // always gets, may be one of twenty thousand a round later.
  if (dense_rounds_ % kDenseRoundsBetweenTries != 0) {
    start.dense_at_once = true;
    return start;
  }
  start.vectors = CarryEntries(change, eigen_.vectors.view());
  if (!change.newcomers.empty()) {
    change.newcomer_kernel = Matrix<double>(change.newcomers.size(), m);
    for (std::size_t i = 0; i < change.newcomers.size(); ++i) {
      std::copy_n(kernel.matrix().row(change.newcomers[i]).data(), m, change.newcomer_kernel.row(i).data());
    }
    ExtendToNewcomers(change, start.vectors);
  }
  if (CanCarryProducts(kernel, change)) start.multiplied = CarryProducts(kernel, change, start.vectors.view());
  return start;
}

}  // namespace fulcrum::leverage
