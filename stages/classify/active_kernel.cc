#include "stages/classify/active_kernel.h"

#include <cassert>
#include <numeric>
#include <utility>

namespace fulcrum::classify {
namespace {

constexpr std::size_t kRowsAtOnce = 4;

}  // namespace

ActiveKernel::ActiveKernel(ConstMatrixView gram, std::span<const std::uint32_t> positions)
    : gram_(gram), positions_(positions) {
  for (std::size_t t = 1; t < positions.size() && neighbours_; ++t) neighbours_ = positions[t] == positions[0] + t;
  ActivateAll();
}

void ActiveKernel::ActivateAll() {
  active_.resize(positions_.size());
  std::iota(active_.begin(), active_.end(), 0u);
  copies_.clear();
  if (!ReadsInPlace()) copies_.resize(active_.size());
}

const double* ActiveKernel::Row(std::size_t slot) {
  const double* source = GramRow(active_[slot]);
  if (ReadsInPlace()) return source + (positions_.empty() ? 0 : positions_[0]);
  std::vector<double>& copy = copies_[slot];
  if (copy.empty()) {
    copy.resize(active_.size());
    for (std::size_t s = 0; s < copy.size(); ++s) copy[s] = source[positions_[active_[s]]];
  }
  return copy.data();
}

void ActiveKernel::Restrict(std::span<const std::uint32_t> kept) {
  copies_.resize(active_.size());
  // Kept slots ascend, so no value is overwritten before it has moved.
  for (std::size_t slot = 0; slot < kept.size(); ++slot) {
    assert(slot == 0 || kept[slot] > kept[slot - 1]);
    std::vector<double> copy = std::move(copies_[kept[slot]]);
    if (!copy.empty()) {
      for (std::size_t s = 0; s < kept.size(); ++s) copy[s] = copy[kept[s]];
      copy.resize(kept.size());
    }
    copies_[slot] = std::move(copy);
    active_[slot] = active_[kept[slot]];
  }
  active_.resize(kept.size());
  copies_.resize(kept.size());
}

void ActiveKernel::AccumulateProduct(std::span<const std::uint32_t> examples, std::span<const double> weights,
                                     std::span<double> out) const {
  const std::size_t count = positions_.size();
  if (count == 0) return;
  const std::size_t first = neighbours_ ? positions_[0] : 0;
  for (std::size_t s = 0; s < examples.size(); s += kRowsAtOnce) {
    const double* rows[kRowsAtOnce];
    double factors[kRowsAtOnce];
    for (std::size_t k = 0; k < kRowsAtOnce; ++k) {
      const bool real = s + k < examples.size();
      rows[k] = GramRow(examples[real ? s + k : s]) + first;
      factors[k] = real ? weights[s + k] : 0;
    }
    double* __restrict to = out.data();
    if (neighbours_) {
      for (std::size_t t = 0; t < count; ++t) {
        to[t] += factors[0] * rows[0][t] + factors[1] * rows[1][t] + factors[2] * rows[2][t] + factors[3] * rows[3][t];
      }
    } else {
      for (std::size_t t = 0; t < count; ++t) {
        const std::uint32_t p = positions_[t];
        to[t] += factors[0] * rows[0][p] + factors[1] * rows[1][p] + factors[2] * rows[2][p] + factors[3] * rows[3][p];
      }
    }
  }
}

}  // namespace fulcrum::classify
