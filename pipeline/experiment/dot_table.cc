#include "pipeline/experiment/dot_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace fulcrum::pipeline {

DotTable::DotTable(std::shared_ptr<const Matrix<double>> dots, std::span<const double> squared_norms, std::size_t dims)
    : dots_(std::move(dots)), dims_(dims) {
  assert(squared_norms.size() <= dots_->rows());
  squared_norms_.assign(squared_norms.begin(), squared_norms.end());
}

void DotTable::DotBlock(std::span<const RowIndex> a, [[maybe_unused]] const Features& other,
                        std::span<const RowIndex> b, MutableMatrixView out) const {
  assert(dynamic_cast<const DotTable*>(&other) != nullptr);
  bool neighbours = true;
  for (std::size_t j = 1; j < b.size() && neighbours; ++j) neighbours = b[j] == b[0] + j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double* const from = dots_->row(a[i]).data();
    double* const to = out.row(i).data();
    if (neighbours) {
      if (!b.empty()) std::copy_n(from + b[0], b.size(), to);
      continue;
    }
    for (std::size_t j = 0; j < b.size(); ++j) to[j] = from[b[j]];
  }
}

}  // namespace fulcrum::pipeline
