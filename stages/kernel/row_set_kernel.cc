#include "stages/kernel/row_set_kernel.h"

#include <algorithm>

#include "stages/kernel/kernel_block.h"

namespace fulcrum::kernel {
namespace {

// Beyond this share of newcomers a symmetric rebuild, which computes each value once, is as fast.
constexpr double kRebuildShare = 0.4;

std::size_t WithSlack(std::size_t size) { return size + std::max<std::size_t>(32, size / 32); }

}  // namespace

RowSetKernel::RowSetKernel(const KernelFunction& kernel, const Features& features)
    : kernel_(kernel), features_(&features), position_(features.rows(), kAbsent) {}

ConstMatrixView RowSetKernel::matrix() const { return storage_.view().Block(0, 0, rows_.size(), rows_.size()); }

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
  if (static_cast<double>(entering.size()) > kRebuildShare * static_cast<double>(rows.size())) {
    stats.rebuilt = true;
    Rebuild(rows);
    return stats;
  }
  FillHoles(entering, holes);
  return stats;
}

void RowSetKernel::FillHoles(std::span<const RowIndex> entering, std::vector<std::size_t>& holes) {
  for (std::size_t position : holes) position_[rows_[position]] = kAbsent;
  EnsureCapacity(rows_.size() + entering.size() - std::min(entering.size(), holes.size()));
  std::vector<std::size_t> filled;
  for (RowIndex row : entering) {
    std::size_t position = rows_.size();
    if (filled.size() < holes.size()) {
      position = holes[filled.size()];
    } else {
      rows_.push_back(row);
    }
    rows_[position] = row;
    position_[row] = static_cast<std::uint32_t>(position);
    filled.push_back(position);
  }
  const std::size_t reused = std::min(filled.size(), holes.size());
  // From the back, so that a hole at the end is dropped before anything is moved into it.
  for (std::size_t i = holes.size(); i-- > reused;) {
    MoveRow(rows_.size() - 1, holes[i]);
    rows_.pop_back();
  }
  ComputeRows(filled);
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

void RowSetKernel::MoveRow(std::size_t from, std::size_t to) {
  if (from == to) return;
  const std::size_t size = rows_.size();
  const MutableMatrixView values = storage_.view();
  std::copy_n(values.row(from).data(), size, values.row(to).data());
  for (std::size_t i = 0; i < size; ++i) values(i, to) = values(i, from);
  values(to, to) = values(from, from);
  rows_[to] = rows_[from];
  position_[rows_[to]] = static_cast<std::uint32_t>(to);
}

void RowSetKernel::ComputeRows(std::span<const std::size_t> positions) {
  if (positions.empty()) return;
  RowList changed;
  for (std::size_t position : positions) changed.push_back(rows_[position]);
  Matrix<double> values(changed.size(), rows_.size());
  ComputeKernelBlock(kernel_, *features_, changed, rows_, values.view());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    // A column is strided through the whole matrix, so rows are written first and columns follow below.
    std::copy_n(values.row(i).data(), rows_.size(), storage_.row(positions[i]).data());
  }
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (std::size_t i = 0; i < positions.size(); ++i) storage_(row, positions[i]) = values(i, row);
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
