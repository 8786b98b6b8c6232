#include <cassert>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "stages/classify/svm_trainer.h"

namespace fulcrum::classify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kLanes = 4;
// Two registers at a time hide the latency of compare and blend.
constexpr std::size_t kStep = 2 * kLanes;

using Lanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;
using LaneIndices [[gnu::vector_size(kLanes * sizeof(std::int64_t))]] = std::int64_t;

inline Lanes Load(const double* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

inline Lanes Broadcast(double value) {
  return Lanes{value, value, value, value};
}

/// A running extreme per lane with its index; a later equal value does not replace it.
struct LaneExtreme {
  Lanes value;
  LaneIndices index = {-1, -1, -1, -1};
};

/// Returns the best over the lanes; ties go to the smaller index.
template <typename IsBetter>
void Reduce(const LaneExtreme& lanes, const IsBetter& is_better, double& value, std::size_t& index) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (lanes.index[lane] < 0) continue;
    const auto candidate = static_cast<std::size_t>(lanes.index[lane]);
    if (is_better(lanes.value[lane], value) || (lanes.value[lane] == value && candidate < index)) {
      value = lanes.value[lane];
      index = candidate;
    }
  }
}

template <bool kUpdate>
FirstChoice ScanUp(const double* f_in, double* f_out, const double* up_penalty, std::size_t count, const double* row_i,
                   const double* row_j, double step) {
  LaneExtreme best[2] = {{Broadcast(kInfinity)}, {Broadcast(kInfinity)}};
  LaneIndices index = {0, 1, 2, 3};
  const Lanes steps = Broadcast(step);
  std::size_t t = 0;
  for (; t + kStep <= count; t += kStep) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = t + half * kLanes;
      Lanes f = Load(f_in + at);
      if constexpr (kUpdate) {
        f += steps * (Load(row_i + at) - Load(row_j + at));
        std::memcpy(f_out + at, &f, sizeof(f));
      }
      const Lanes value = f + Load(up_penalty + at);
      const auto better = value < best[half].value;
      best[half].value = better ? value : best[half].value;
      best[half].index = better ? index : best[half].index;
      index += static_cast<std::int64_t>(kLanes);
    }
  }
  FirstChoice first;
  const auto smaller = [](double a, double b) { return a < b; };
  Reduce(best[0], smaller, first.value, first.index);
  Reduce(best[1], smaller, first.value, first.index);
  for (; t < count; ++t) {
    double f = f_in[t];
    if constexpr (kUpdate) f_out[t] = f += step * (row_i[t] - row_j[t]);
    if (f + up_penalty[t] < first.value) first = {f + up_penalty[t], t};
  }
  return first;
}

}  // namespace

FirstChoice SelectFirst(std::span<const double> f, std::span<const double> up_penalty) {
  return ScanUp<false>(f.data(), nullptr, up_penalty.data(), f.size(), nullptr, nullptr, 0);
}

FirstChoice UpdateAndSelectFirst(std::span<double> f, std::span<const double> up_penalty, const double* row_i,
                                 const double* row_j, double step) {
  return ScanUp<true>(f.data(), f.data(), up_penalty.data(), f.size(), row_i, row_j, step);
}

SecondChoice SelectSecond(std::span<const double> f, std::span<const double> low_penalty,
                          std::span<const double> diagonal, const double* row_i, double diagonal_i,
                          double first_value) {
  LaneExtreme best[2] = {{Broadcast(0)}, {Broadcast(0)}};
  Lanes largest[2] = {Broadcast(-kInfinity), Broadcast(-kInfinity)};
  LaneIndices index = {0, 1, 2, 3};
  const Lanes zero = Broadcast(0), least = Broadcast(kLeastCurvature);
  std::size_t t = 0;
  for (; t + kStep <= f.size(); t += kStep) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = t + half * kLanes;
      const Lanes low = Load(f.data() + at) - Load(low_penalty.data() + at);
      largest[half] = low > largest[half] ? low : largest[half];
      Lanes violation = low - first_value;
      violation = violation > zero ? violation : zero;
      Lanes curvature = diagonal_i + Load(diagonal.data() + at) - 2.0 * Load(row_i + at);
      curvature = curvature > least ? curvature : least;
      const Lanes gain = violation * violation / curvature;
      const auto better = gain > best[half].value;
      best[half].value = better ? gain : best[half].value;
      best[half].index = better ? index : best[half].index;
      index += static_cast<std::int64_t>(kLanes);
    }
  }
  SecondChoice second;
  double best_gain = 0;
  const auto larger = [](double a, double b) { return a > b; };
  for (std::size_t half = 0; half < 2; ++half) {
    Reduce(best[half], larger, best_gain, second.index);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (largest[half][lane] > second.largest_low) second.largest_low = largest[half][lane];
    }
  }
  for (; t < f.size(); ++t) {
    const double low = f[t] - low_penalty[t];
    if (low > second.largest_low) second.largest_low = low;
    const double violation = low > first_value ? low - first_value : 0;
    const double curvature = diagonal_i + diagonal[t] - 2.0 * row_i[t];
    const double gain = violation * violation / (curvature > kLeastCurvature ? curvature : kLeastCurvature);
    if (gain > best_gain) {
      best_gain = gain;
      second.index = t;
    }
  }
  return second;
}

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
  // Kept slots ascend, so no value is overwritten before it is moved.
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
