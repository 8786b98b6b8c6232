#include "stages/core/random.h"

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace fulcrum {
namespace {

std::uint64_t SplitMix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = SplitMix64(seed);
}

Random Random::Fork(std::uint64_t seed, std::uint64_t stream) {
  std::uint64_t mixed = seed;
  const std::uint64_t scrambled_seed = SplitMix64(mixed);
  return Random(scrambled_seed ^ (stream * 0xd1342543de82ef95ULL + 1));
}

std::uint64_t Random::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

std::uint64_t Random::Below(std::uint64_t bound) {
  // Accepting values below this remainder would make small results more likely.
  const std::uint64_t unfair = (0 - bound) % bound;
  std::uint64_t value = Next();
  while (value < unfair) value = Next();
  return value % bound;
}

double Random::Normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double u = 0, v = 0, square = 0;
  do {
    u = 2 * Uniform() - 1;
    v = 2 * Uniform() - 1;
    square = u * u + v * v;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2 * std::log(square) / square);
  spare_normal_ = v * factor;
  has_spare_normal_ = true;
  return u * factor;
}

std::vector<std::uint64_t> DrawDifferent(std::uint64_t total, std::uint64_t count, Random& random) {
  // The places of the shuffled list whose number is not their own.
  std::unordered_map<std::uint64_t, std::uint64_t> moved;
  const auto at = [&](std::uint64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<std::uint64_t> drawn;
  for (std::uint64_t i = 0; i < count && i < total; ++i) {
    const std::uint64_t other = i + random.Below(total - i);
    drawn.push_back(at(other));
    moved[other] = at(i);
  }
  return drawn;
}

}  // namespace fulcrum
