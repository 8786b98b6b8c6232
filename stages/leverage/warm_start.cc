#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

// With more new rows than this the old subspace is too inaccurate, and a vector that only new rows contribute to could
// be missed.
constexpr double kLargestNewShare = 0.2;

// Spectra change slowly: if the dense solver had to take over, it will have to again for some rounds.
constexpr std::size_t kDenseRoundsBetweenTries = 16;

// If the kernel of new and removed rows must be computed for it, correcting the products costs as much as computing
// them again when this share of the rows changed.
constexpr double kLargestCorrectedShare = 0.1;

// Rows of the kernel at a time: with 100,000 columns, 50 MB.
constexpr std::size_t kRowsAtOnce = 64;

/// The entries of `vectors` at some positions.
Matrix<double> EntriesAt(ConstMatrixView vectors, std::span<const std::size_t> positions) {
  Matrix<double> entries(vectors.rows(), positions.size());
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    for (std::size_t j = 0; j < positions.size(); ++j) entries(i, j) = vectors(i, positions[j]);
  }
  return entries;
}

}  // namespace

/// The rows that stayed, entered and left, as positions now and before.
struct WarmStart::Change {
  static constexpr std::size_t kNew = ~std::size_t{0};
  std::vector<std::size_t> old_position;  // of each row now; kNew for new rows
  std::vector<std::size_t> newcomers;     // positions now
  std::vector<std::size_t> departed;      // positions then
};

void WarmStart::Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen) {
  rows_.assign(rows.begin(), rows.end());
  eigen_ = std::move(eigen);
  dense_rounds_ = eigen_.engine == "dense" ? dense_rounds_ + 1 : 0;
}

WarmStart::Change WarmStart::CompareRows(std::span<const RowIndex> rows_now) const {
  absl::flat_hash_map<RowIndex, std::size_t> positions;
  positions.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) positions.emplace(rows_[i], i);
  Change change;
  std::vector<bool> stayed(rows_.size(), false);
  for (std::size_t i = 0; i < rows_now.size(); ++i) {
    const auto found = positions.find(rows_now[i]);
    const bool is_new = found == positions.end();
    if (is_new) change.newcomers.push_back(i);
    change.old_position.push_back(is_new ? Change::kNew : found->second);
    if (!is_new) stayed[found->second] = true;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!stayed[i]) change.departed.push_back(i);
  }
  return change;
}

bool WarmStart::TooMuchIsNew(const Change& change) const {
  const auto size = static_cast<double>(change.old_position.size());
  return rows_.empty() || size == 0 || static_cast<double>(change.newcomers.size()) > kLargestNewShare * size;
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

void WarmStart::ExtendToNewcomers(const Change& change, KernelRows of_newcomers, Matrix<double>& vectors) const {
  // Taken from the rows that stayed, so all are computed before any is written: the entries of new rows are still zero.
  Matrix<double> extended = Matrix<double>::Zero(vectors.rows(), change.newcomers.size());
  for (std::size_t first = 0; first < change.newcomers.size(); first += kRowsAtOnce) {
    const std::size_t count = std::min(kRowsAtOnce, change.newcomers.size() - first);
    linalg::InnerProducts(vectors.view(), of_newcomers(first, count).view(), extended.view().Cols(first, count));
  }
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const double eigenvalue = linalg::RitzValue(eigen_, i);
    for (std::size_t j = 0; j < change.newcomers.size(); ++j) {
      vectors(i, change.newcomers[j]) = eigenvalue > 0 ? extended(i, j) / eigenvalue : 0.0;
    }
  }
}

Matrix<double> WarmStart::CarryProducts(const Change& change, ConstMatrixView vectors, KernelRows of_newcomers,
                                        KernelRows of_departed) const {
  Matrix<double> multiplied = CarryEntries(change, eigen_.multiplied.view());
  const std::span<const std::size_t> departed(change.departed), newcomers(change.newcomers);
  for (std::size_t first = 0; first < departed.size(); first += kRowsAtOnce) {
    const auto some = departed.subspan(first, std::min(kRowsAtOnce, departed.size() - first));
    const Matrix<double> weights = EntriesAt(eigen_.vectors.view(), some);
    linalg::Combine(-1.0, weights.view(), of_departed(first, some.size()).view(), 1.0, multiplied.view());
  }
  Matrix<double> of_new = Matrix<double>::Zero(vectors.rows(), newcomers.size());
  for (std::size_t first = 0; first < newcomers.size(); first += kRowsAtOnce) {
    const auto some = newcomers.subspan(first, std::min(kRowsAtOnce, newcomers.size() - first));
    const Matrix<double> weights = EntriesAt(vectors, some);
    const Matrix<double> kernel = of_newcomers(first, some.size());
    linalg::Combine(1.0, weights.view(), kernel.view(), 1.0, multiplied.view());
    linalg::InnerProducts(vectors, kernel.view(), of_new.view().Cols(first, some.size()));
  }
  for (std::size_t i = 0; i < of_new.rows(); ++i) {
    for (std::size_t j = 0; j < newcomers.size(); ++j) multiplied(i, newcomers[j]) = of_new(i, j);
  }
  return multiplied;
}

StartSubspace WarmStart::CarryVectors(const Change& change, KernelRows of_newcomers) const {
  StartSubspace start;
  start.vectors = CarryEntries(change, eigen_.vectors.view());
  if (!change.newcomers.empty()) ExtendToNewcomers(change, of_newcomers, start.vectors);
  return start;
}

StartSubspace WarmStart::For(const kernel::RowSetKernel& kernel) const {
  const Change change = CompareRows(kernel.rows());
  if (TooMuchIsNew(change)) return {};
  // Only now is it known that these are nearly the rows that the dense solver had: a class of seventy rows, which it
  // always gets, may be one of twenty thousand a round later.
  if (dense_rounds_ % kDenseRoundsBetweenTries != 0) {
    StartSubspace start;
    start.dense_at_once = true;
    return start;
  }
  const auto of_newcomers = [&](std::size_t first, std::size_t count) {
    Matrix<double> rows(count, kernel.rows().size());
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(kernel.matrix().row(change.newcomers[first + i]).data(), rows.cols(), rows.row(i).data());
    }
    return rows;
  };
  const auto of_departed = [&](std::size_t first, std::size_t count) {
    return CarryEntries(change, kernel.departed().values.view().Rows(first, count));
  };
  StartSubspace start = CarryVectors(change, of_newcomers);
  // The kernel's record of removed rows must refer to the same previous rows as ours.
  const bool departed_known = !kernel.departed().values.empty() && kernel.departed().others == rows_;
  if (!eigen_.multiplied.empty() && (change.departed.empty() || departed_known)) {
    start.multiplied = CarryProducts(change, start.vectors.view(), of_newcomers, of_departed);
  }
  return start;
}

StartSubspace WarmStart::For(const kernel::TiledKernel& kernel) const {
  const Change change = CompareRows(kernel.rows());
  if (TooMuchIsNew(change)) return {};
  const auto compute = [&](std::span<const RowIndex> rows, std::span<const std::size_t> positions) {
    RowList some;
    for (std::size_t position : positions) some.push_back(rows[position]);
    Matrix<double> values(some.size(), kernel.size());
    kernel.WriteRows(some, values.view());
    return values;
  };
  const auto of_newcomers = [&](std::size_t first, std::size_t count) {
    return compute(kernel.rows(), std::span(change.newcomers).subspan(first, count));
  };
  const auto of_departed = [&](std::size_t first, std::size_t count) {
    return compute(rows_, std::span(change.departed).subspan(first, count));
  };
  StartSubspace start = CarryVectors(change, of_newcomers);
  const auto changed = static_cast<double>(change.newcomers.size() + change.departed.size());
  if (!eigen_.multiplied.empty() && changed <= kLargestCorrectedShare * static_cast<double>(kernel.size())) {
    start.multiplied = CarryProducts(change, start.vectors.view(), of_newcomers, of_departed);
  }
  return start;
}

}  // namespace fulcrum::leverage
