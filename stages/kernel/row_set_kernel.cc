#include <algorithm>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::kernel {
namespace {

// Above this share of new rows a symmetric rebuild, which computes each value once, is as fast.
constexpr double kRebuildShare = 0.4;

// The kernel of removed rows is kept up to this share of the set; above it, sums are computed again.
constexpr double kDepartedShare = 0.1;
// Rows whose columns are written together: enough to read the new values by cache lines.
constexpr std::size_t kRowsPerTask = 64;

std::size_t WithSlack(std::size_t size) {
  return size + std::max<std::size_t>(32, size / 32);
}

}  // namespace

RowSetKernel::RowSetKernel(const KernelFunction& kernel, const Features& features)
    : kernel_(kernel), features_(&features), position_(features.rows(), kAbsent) {}

void RowSetKernel::MoveTo(const Features& grown) {
  features_ = &grown;
  position_.resize(grown.rows(), kAbsent);
}

ConstMatrixView RowSetKernel::matrix() const {
  return storage_.view().Block(0, 0, rows_.size(), rows_.size());
}

RowSetKernel::UpdateStats RowSetKernel::Update(std::span<const RowIndex> rows) {
  UpdateStats stats;
  std::vector<bool> wanted(position_.size(), false);
  RowList entering;
  for (RowIndex row : rows) {
    wanted[row] = true;
    if (!Contains(row)) entering.push_back(row);
  }
  std::vector<std::size_t> holes;
  for (std::size_t position = 0; position < rows_.size(); ++position) {
    if (!wanted[rows_[position]]) holes.push_back(position);
  }
  stats.entered = entering.size();
  stats.left = holes.size();
  RememberDeparted(holes);
  if (static_cast<double>(entering.size()) > kRebuildShare * static_cast<double>(rows.size())) {
    stats.rebuilt = true;
    Rebuild(rows);
    return stats;
  }
  FillHoles(entering, holes);
  return stats;
}

void RowSetKernel::RememberDeparted(std::span<const std::size_t> holes) {
  departed_ = {};
  departed_.others = rows_;
  if (static_cast<double>(holes.size()) > kDepartedShare * static_cast<double>(rows_.size())) return;
  departed_.values = Matrix<double>(holes.size(), rows_.size());
  for (std::size_t i = 0; i < holes.size(); ++i) {
    std::copy_n(storage_.row(holes[i]).data(), rows_.size(), departed_.values.row(i).data());
  }
}

void RowSetKernel::FillHoles(std::span<const RowIndex> entering, std::span<const std::size_t> holes) {
  for (std::size_t position : holes) position_[rows_[position]] = kAbsent;
  const std::size_t reused = std::min(entering.size(), holes.size());
  EnsureCapacity(rows_.size() + entering.size() - reused);
  MoveLastInto(holes.subspan(reused));
  std::vector<std::size_t> filled;
  for (std::size_t i = 0; i < entering.size(); ++i) {
    const std::size_t position = i < reused ? holes[i] : rows_.size();
    if (i >= reused) rows_.push_back(entering[i]);
    rows_[position] = entering[i];
    position_[entering[i]] = static_cast<std::uint32_t>(position);
    filled.push_back(position);
  }
  ComputeRows(filled);
}

void RowSetKernel::MoveLastInto(std::span<const std::size_t> holes) {
  std::vector<std::pair<std::size_t, std::size_t>> moves;  // from, to
  // From the back, so that a hole at the end is dropped before anything is moved into it.
  for (std::size_t i = holes.size(); i-- > 0;) {
    const std::size_t last = rows_.size() - 1;
    if (holes[i] != last) {
      moves.emplace_back(last, holes[i]);
      rows_[holes[i]] = rows_[last];
      position_[rows_[last]] = static_cast<std::uint32_t>(holes[i]);
    }
    rows_.pop_back();
  }
  const std::size_t size = rows_.size() + holes.size();
  for (const auto& [from, to] : moves) std::copy_n(storage_.row(from).data(), size, storage_.row(to).data());
  ParallelForBlocks(rows_.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      for (const auto& [from, to] : moves) storage_(row, to) = storage_(row, from);
    }
  });
}

void RowSetKernel::Rebuild(std::span<const RowIndex> rows) {
  for (RowIndex row : rows_) position_[row] = kAbsent;
  rows_.assign(rows.begin(), rows.end());
  for (std::size_t position = 0; position < rows_.size(); ++position) {
    position_[rows_[position]] = static_cast<std::uint32_t>(position);
  }
  if (storage_.rows() < rows_.size()) {
    // The old matrix goes first: two of them may not fit.
    storage_ = Matrix<double>();
    const std::size_t capacity = std::min(WithSlack(rows_.size()), features_->rows());
    storage_ = Matrix<double>(capacity, capacity);
  }
  ComputeKernelSymmetric(kernel_, *features_, rows_, storage_.view().Block(0, 0, rows_.size(), rows_.size()));
}

void RowSetKernel::ComputeRows(std::span<const std::size_t> positions) {
  if (positions.empty()) return;
  RowList changed;
  for (std::size_t position : positions) changed.push_back(rows_[position]);
  Matrix<double> values(changed.size(), rows_.size());
  ComputeKernelBlock(kernel_, *features_, changed, rows_, values.view());
  ParallelForBlocks(rows_.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      for (std::size_t row = first; row < first + count; ++row) storage_(row, positions[i]) = values(i, row);
    }
  });
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::copy_n(values.row(i).data(), rows_.size(), storage_.row(positions[i]).data());
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    storage_(positions[i], positions[i]) = KernelDiagonal(kernel_, features_->squared_norms()[changed[i]]);
  }
}

void RowSetKernel::EnsureCapacity(std::size_t size) {
  if (size <= storage_.rows()) return;
  const std::size_t capacity = std::min(WithSlack(size), features_->rows());
  Matrix<double> larger(capacity, capacity);
  if (!rows_.empty()) CopyMatrix<double>(matrix(), larger.view().Block(0, 0, rows_.size(), rows_.size()));
  storage_ = std::move(larger);
}

}  // namespace fulcrum::kernel
