#include "stages/leverage/warm_start.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

// With more newcomers than this the old subspace says too little, and a vector that only newcomers know of
// could be missed.
constexpr double kLargestNewShare = 0.2;

}  // namespace

void WarmStart::Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen) {
  rows_.assign(rows.begin(), rows.end());
  eigen_ = std::move(eigen);
}

void WarmStart::Forget() {
  rows_.clear();
  eigen_ = {};
}

Matrix<double> WarmStart::SubspaceFor(std::span<const RowIndex> rows, ConstMatrixView kernel) const {
  if (rows_.empty() || rows.empty()) return {};
  absl::flat_hash_map<RowIndex, std::size_t> old_position;
  old_position.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) old_position.emplace(rows_[i], i);

  const std::size_t width = eigen_.vectors.cols();
  Matrix<double> start(rows.size(), width);
  std::vector<std::size_t> newcomers;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto found = old_position.find(rows[i]);
    if (found == old_position.end()) {
      newcomers.push_back(i);
      std::fill_n(start.row(i).data(), width, 0.0);
    } else {
      std::copy_n(eigen_.vectors.row(found->second).data(), width, start.row(i).data());
    }
  }
  if (static_cast<double>(newcomers.size()) > kLargestNewShare * static_cast<double>(rows.size())) return {};

  // All extensions are taken from the rows that stayed before any of them is written.
  Matrix<double> extended(newcomers.size(), width);
  for (std::size_t i = 0; i < newcomers.size(); ++i) {
    linalg::Gemv(linalg::Transpose::kYes, 1.0, start.view(), kernel.row(newcomers[i]), 0.0, extended.row(i));
  }
  for (std::size_t i = 0; i < newcomers.size(); ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      const double eigenvalue = eigen_.values[std::min(j, eigen_.values.size() - 1)];
      start(newcomers[i], j) = eigenvalue > 0 ? extended(i, j) / eigenvalue : 0.0;
    }
  }
  return start;
}

}  // namespace fulcrum::leverage
