#include "stages/classify/svm_warm_start.h"

#include <algorithm>
#include <optional>

#include "stages/core/matrix.h"
#include "stages/kernel/kernel_block.h"

namespace fulcrum::classify {
namespace {

// Updated products collect rounding errors; after so many starts they are computed afresh.
constexpr std::size_t kStartsBetweenFullProducts = 64;
// Kernel rows of examples that left, computed at once.
constexpr std::size_t kLeaversAtOnce = 64;

/// Finds rows of a solved pair.
class RowLookup {
 public:
  explicit RowLookup(const PairProblem& pair) : pair_(pair), by_row_(ExamplesByRow(pair)) {}

  std::optional<std::uint32_t> Find(RowIndex row) const {
    const auto found =
        std::lower_bound(by_row_.begin(), by_row_.end(), row,
                         [&](std::uint32_t example, RowIndex wanted) { return pair_.rows[example] < wanted; });
    if (found == by_row_.end() || pair_.rows[*found] != row) return std::nullopt;
    return *found;
  }

 private:
  const PairProblem& pair_;
  std::vector<std::uint32_t> by_row_;
};

/// Examples of the earlier solution that are gone or have changed sides, with a multiplier that counted.
struct Leavers {
  RowList rows;
  std::vector<double> beta;
};

void SubtractLeavers(const Leavers& leavers, const PairProblem& next, const kernel::RowSetKernel& gram,
                     std::vector<double>& products) {
  for (std::size_t first = 0; first < leavers.rows.size(); first += kLeaversAtOnce) {
    const std::size_t count = std::min(kLeaversAtOnce, leavers.rows.size() - first);
    Matrix<double> values(count, next.rows.size());
    kernel::ComputeKernelBlock(gram.kernel(), gram.features(), std::span(leavers.rows).subspan(first, count), next.rows,
                               values.view());
    for (std::size_t k = 0; k < count; ++k) {
      const auto row = values.row(k);
      for (std::size_t t = 0; t < products.size(); ++t) products[t] -= leavers.beta[first + k] * row[t];
    }
  }
}

double ProductOf(std::size_t example, const PairProblem& next, std::span<const double> alpha, ConstMatrixView gram) {
  const auto row = gram.row(next.positions[example]);
  double sum = 0;
  for (std::size_t s = 0; s < alpha.size(); ++s) {
    if (alpha[s] != 0) sum += next.y[s] * alpha[s] * row[next.positions[s]];
  }
  return sum;
}

}  // namespace

WarmStart MakeWarmStart(const PairProblem& previous, const PairProblem& next, const kernel::RowSetKernel& gram) {
  const std::size_t count = next.rows.size();
  const RowLookup lookup(previous);
  WarmStart start{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  std::vector<bool> stayed(previous.rows.size(), false);
  std::vector<std::size_t> newcomers;
  for (std::size_t t = 0; t < count; ++t) {
    const auto known = lookup.Find(next.rows[t]);
    if (!known || previous.y[*known] != next.y[t]) {
      newcomers.push_back(t);
      continue;
    }
    stayed[*known] = true;
    start.alpha[t] = previous.solution.alpha[*known];
    start.products[t] = previous.solution.products[*known];
  }
  Leavers leavers;
  for (std::size_t s = 0; s < stayed.size(); ++s) {
    if (stayed[s] || previous.solution.alpha[s] == 0) continue;
    leavers.rows.push_back(previous.rows[s]);
    leavers.beta.push_back(previous.y[s] * previous.solution.alpha[s]);
  }
  const bool much_changed = newcomers.size() + leavers.rows.size() > count / 8;
  if (much_changed || previous.starts_since_full_products >= kStartsBetweenFullProducts) {
    start.products.clear();
    return start;
  }
  SubtractLeavers(leavers, next, gram, start.products);
  for (std::size_t t : newcomers) start.products[t] = ProductOf(t, next, start.alpha, gram.matrix());
  return start;
}

}  // namespace fulcrum::classify
