// Random numbers that are identical on every machine and with every standard library.
//
// The distributions of <random> differ between implementations, so the same seed would give different batches. These
// are implemented here. Not thread-safe: give each task its own generator with Fork.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fulcrum {

/// xoshiro256** seeded through splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  /// Returns an independent generator, determined by (seed, stream).
  static Random Fork(std::uint64_t seed, std::uint64_t stream);

  std::uint64_t Next();
  /// Uniform in [0, 1), 53 bits.
  double Uniform();
  /// Uniform in [0, bound), without modulo bias; bound > 0.
  std::uint64_t Below(std::uint64_t bound);
  /// Standard normal.
  double Normal();

  template <typename T>
  void Shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[Below(i)]);
    }
  }

 private:
  std::uint64_t state_[4];
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

/// `count` different numbers below `total`, or all of them if there are fewer: the first ones of a shuffle of 0, 1,
/// ..., in its order. Takes memory for `count` numbers only.
std::vector<std::uint64_t> DrawDifferent(std::uint64_t total, std::uint64_t count, Random& random);

}  // namespace fulcrum
