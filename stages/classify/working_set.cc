#include "stages/classify/working_set.h"

#include <cstdint>
#include <cstring>

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

/// A running extreme in each lane with the index it came from; a later equal value does not replace it.
struct LaneExtreme {
  Lanes value;
  LaneIndices index = {-1, -1, -1, -1};
};

/// The best over the lanes, ties to the smaller index.
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

}  // namespace fulcrum::classify
