#include <gtest/gtest.h>

#include <vector>

#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Scan {
  std::vector<double> f, up, low, diagonal, row_i, row_j;
};

/// Values from a small set, so that ties are common.
Scan RandomScan(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Scan scan;
  for (std::size_t t = 0; t < count; ++t) {
    scan.f.push_back(static_cast<double>(random.Below(7)) - 3);
    scan.up.push_back(random.Below(3) == 0 ? kInfinity : 0);
    scan.low.push_back(random.Below(3) == 0 ? kInfinity : 0);
    scan.diagonal.push_back(1 + static_cast<double>(random.Below(2)));
    scan.row_i.push_back(static_cast<double>(random.Below(3)) / 2);
    scan.row_j.push_back(static_cast<double>(random.Below(3)) / 4);
  }
  return scan;
}

FirstChoice NaiveFirst(const Scan& scan) {
  FirstChoice first;
  for (std::size_t t = 0; t < scan.f.size(); ++t) {
    if (scan.up[t] == 0 && scan.f[t] < first.value) first = {scan.f[t], t};
  }
  return first;
}

SecondChoice NaiveSecond(const Scan& scan, double diagonal_i, double first_value) {
  SecondChoice second;
  double best = 0;
  for (std::size_t t = 0; t < scan.f.size(); ++t) {
    if (scan.low[t] != 0) continue;
    second.largest_low = std::max(second.largest_low, scan.f[t]);
    const double violation = scan.f[t] - first_value;
    if (violation <= 0) continue;
    const double gain = violation * violation / std::max(diagonal_i + scan.diagonal[t] - 2 * scan.row_i[t], 1e-12);
    if (gain > best) {
      best = gain;
      second.index = t;
    }
  }
  return second;
}

TEST(WorkingSetTest, SelectionsEqualNaiveScansOfEverySize) {
  for (std::size_t count = 0; count < 70; ++count) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Scan scan = RandomScan(count, 100 * count + seed);
      const FirstChoice first = SelectFirst(scan.f, scan.up), naive = NaiveFirst(scan);
      EXPECT_EQ(first.index, naive.index) << count;
      EXPECT_EQ(first.value, naive.value) << count;
      for (double first_value : {-3.0, 0.0, 2.0}) {
        const SecondChoice second = SelectSecond(scan.f, scan.low, scan.diagonal, scan.row_i.data(), 1.5, first_value);
        const SecondChoice naive_second = NaiveSecond(scan, 1.5, first_value);
        EXPECT_EQ(second.index, naive_second.index) << count;
        EXPECT_EQ(second.largest_low, naive_second.largest_low) << count;
      }
    }
  }
}

TEST(WorkingSetTest, UpdateChangesEveryGradientBeforeItSelects) {
  for (std::size_t count : {1u, 7u, 8u, 9u, 31u, 64u}) {
    Scan scan = RandomScan(count, count);
    Scan expected = scan;
    for (std::size_t t = 0; t < count; ++t) expected.f[t] += 0.5 * (scan.row_i[t] - scan.row_j[t]);
    const FirstChoice first = UpdateAndSelectFirst(scan.f, scan.up, scan.row_i.data(), scan.row_j.data(), 0.5);
    EXPECT_EQ(scan.f, expected.f);
    EXPECT_EQ(first.index, NaiveFirst(expected).index);
  }
}

}  // namespace
}  // namespace fulcrum::classify
