// DBALEVS, paper section "Proposed Batch-Mode Active Learning Method": per class, the batch that maximises leverage
// minus similarity, within itself and to the labeled examples.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

// A batch that is diverse within itself and compared to the labeled examples, selected per class with one score per
// row, as DBALEVS does with leverage scores. METHOD section 1.

// Values of a normalised kernel may be slightly outside [0, 1] due to rounding.
constexpr double kKernelTolerance = 1e-9;

absl::Status CheckAlpha(double alpha) {
  if (alpha >= 0 && alpha <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("alpha is %g; it must lie in [0, 1], or a larger batch could be worth less than a smaller one. "
                      "Choose a value from 0 (no diversity) to 1 (the most).",
                      alpha));
}

std::string AdviceAgainst(double value, const kernel::KernelFunction& kernel) {
  if (value > 1 && !kernel.normalize) return "Normalize the kernel, or use the rbf kernel.";
  if (value < 0) return "Normalizing does not raise values below zero: use the rbf kernel.";
  return "Check the features for values that are not finite, or use the rbf kernel.";
}

absl::Status OutsideUnitInterval(const Candidates& candidates, const Group& group, std::size_t i, std::size_t j) {
  const double value = group.kernel(i, j);
  return absl::InvalidArgumentError(absl::StrFormat(
      "the set function of a diverse batch needs a kernel with values in [0, 1], but %s gives %g between rows %d and "
      "%d of the pool (counted from 0, class group %d). %s",
      kernel::DescribeKernel(candidates.leverage_kernel), value, group.rows[i], group.rows[j], group.class_index,
      AdviceAgainst(value, candidates.leverage_kernel)));
}

absl::Status CheckKernel(const Candidates& candidates, const Group& group) {
  const std::size_t size = group.rows.size();
  if (group.kernel.empty()) return absl::OkStatus();  // checked when it is computed
  if (group.kernel.rows() != size || group.kernel.cols() != size) {
    return absl::InternalError(absl::StrFormat("class group %d has %d rows, but a kernel of %d x %d", group.class_index,
                                               size, group.kernel.rows(), group.kernel.cols()));
  }
  if (kernel::AlwaysInUnitInterval(candidates.leverage_kernel)) return absl::OkStatus();
  constexpr std::size_t kRowsPerBlock = 64;
  // The first invalid column of each row, so that the message names the same pair for any number of threads.
  std::vector<std::size_t> offender(size, size);
  ParallelForBlocks(size, kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      const auto row = group.kernel.row(i);
      const auto found = std::find_if(row.begin(), row.end(), [](double value) {
        return !(value >= -kKernelTolerance && value <= 1 + kKernelTolerance);
      });
      offender[i] = static_cast<std::size_t>(found - row.begin());
    }
  });
  for (std::size_t i = 0; i < size; ++i) {
    if (offender[i] < size) return OutsideUnitInterval(candidates, group, i, offender[i]);
  }
  return absl::OkStatus();
}

std::vector<std::size_t> LabeledPositions(const Candidates& candidates, const Group& group) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < group.rows.size(); ++i) {
    if (candidates.labels[group.rows[i]] != kUnlabeled) positions.push_back(i);
  }
  return positions;
}

std::vector<std::size_t> SharesOf(const Candidates& candidates, std::span<const std::vector<std::size_t>> labeled) {
  std::vector<std::size_t> labeled_counts, available_counts;
  for (std::size_t g = 0; g < candidates.groups.size(); ++g) {
    labeled_counts.push_back(labeled[g].size());
    available_counts.push_back(candidates.groups[g].rows.size() - labeled[g].size());
  }
  return DivideBatch(candidates.batch, labeled_counts, available_counts);
}

/// Returns exact scores as the set function uses them; nothing if they are already exact.
ExactScores RefinerOf(const Group& group, double factor) {
  if (!(group.leverage_slack > 0)) return {};
  return [&group, factor](std::span<const std::size_t> positions) {
    std::vector<double> scores = group.refine_leverage(positions);
    for (double& score : scores) score *= factor;
    return scores;
  };
}

absl::StatusOr<GreedyBatch> ChooseFrom(const Candidates& candidates, const Group& group,
                                       std::span<const std::size_t> labeled, std::size_t share) {
  const double factor = LeverageFactor(group, candidates.scale);
  const std::vector<double> scores = ScaledLeverage(group, candidates.scale);
  if (group.kernel.empty()) {
    return MaximizeStreamed({.features = candidates.features,
                             .kernel = candidates.leverage_kernel,
                             .rows = group.rows,
                             .scores = scores,
                             .labeled = labeled,
                             .batch = share,
                             .alpha = candidates.alpha,
                             .slack = factor * group.leverage_slack,
                             .exact_scores = RefinerOf(group, factor),
                             .similarities = group.similarities});
  }
  return MaximizeGreedily({.rows = group.rows,
                           .scores = scores,
                           .kernel = group.kernel,
                           .labeled = labeled,
                           .batch = share,
                           .alpha = candidates.alpha});
}

/// K(x, position) of all rows of the group; InvalidArgument for a value outside [0, 1].
absl::Status WriteColumn(const Candidates& candidates, const Group& group, std::size_t position,
                         std::span<double> column) {
  constexpr std::size_t kRowsPerBlock = 4096;
  if (!group.kernel.empty()) {
    std::ranges::copy(group.kernel.row(position), column.begin());
    return absl::OkStatus();
  }
  const RowIndex& row = group.rows[position];
  ParallelForBlocks(group.rows.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    kernel::ComputeKernelBlock(candidates.leverage_kernel, *candidates.features, group.rows.subspan(first, count),
                               std::span(&row, 1), MutableMatrixView(column.data() + first, count, 1));
  });
  const auto outside = std::ranges::find_if(
      column, [](double value) { return !(value >= -kKernelTolerance && value <= 1 + kKernelTolerance); });
  if (outside == column.end()) return absl::OkStatus();
  const auto other = static_cast<std::size_t>(outside - column.begin());
  return absl::InvalidArgumentError(absl::StrFormat(
      "the set function of a diverse batch needs a kernel with values in [0, 1], but %s gives %g between rows %d and "
      "%d of the pool (counted from 0). %s",
      kernel::DescribeKernel(candidates.leverage_kernel), *outside, row, group.rows[other],
      AdviceAgainst(*outside, candidates.leverage_kernel)));
}

/// Within what may be spent on this class.
absl::StatusOr<GreedyBatch> BuyFrom(const Candidates& candidates, const Group& group,
                                    std::span<const std::size_t> labeled, std::size_t share, double budget) {
  const double factor = LeverageFactor(group, candidates.scale);
  std::vector<double> scores = ScaledLeverage(group, candidates.scale);
  if (const ExactScores exact = RefinerOf(group, factor)) {
    std::vector<std::size_t> all(scores.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    scores = exact(all);
  }
  std::vector<double> costs;
  for (const RowIndex row : group.rows) costs.push_back(candidates.cost.costs[row]);
  return MaximizeWithinBudget({.rows = group.rows,
                               .scores = scores,
                               .costs = costs,
                               .labeled = labeled,
                               .batch = share,
                               .budget = budget,
                               .alpha = candidates.alpha,
                               .column = [&](std::size_t position, std::span<double> column) {
                                 return WriteColumn(candidates, group, position, column);
                               }});
}

/// Each class gets the part of the budget that it has of the batch, and what the classes before it left.
std::vector<absl::StatusOr<GreedyBatch>> BuyBatches(const Candidates& candidates,
                                                    std::span<const std::vector<std::size_t>> labeled,
                                                    std::span<const std::size_t> shares) {
  std::vector<absl::StatusOr<GreedyBatch>> batches(shares.size(), GreedyBatch());
  std::size_t places = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
  Purse purse(candidates.cost.budget);
  for (std::size_t g = 0; g < shares.size(); ++g) {
    if (shares[g] == 0) continue;
    const double budget = purse.left() * static_cast<double>(shares[g]) / static_cast<double>(places);
    places -= shares[g];
    batches[g] = BuyFrom(candidates, candidates.groups[g], labeled[g], shares[g], std::max(budget, 0.0));
    if (!batches[g].ok()) return batches;
    for (const std::size_t position : batches[g]->positions) {
      purse.Pay(candidates.cost.costs[candidates.groups[g].rows[position]]);
    }
  }
  return batches;
}

void AppendPicks(const Group& group, const GreedyBatch& batch, Selection& selection) {
  for (std::size_t i = 0; i < batch.positions.size(); ++i) {
    const std::size_t position = batch.positions[i];
    selection.picks.push_back({.row = group.rows[position],
                               .class_index = group.class_index,
                               .leverage = group.leverage[position],
                               .gain = batch.gains[i]});
  }
  selection.certificate.value += batch.value;
  selection.certificate.upper_bound += batch.upper_bound;
}

// Gains never increase within a class, so this merges the classes and keeps their order. Equal gains within a class
// keep the order of selection.
void SortByGain(std::vector<Pick>& picks) {
  std::stable_sort(picks.begin(), picks.end(),
                   [](const Pick& a, const Pick& b) { return LargerFirst()(a.gain, b.gain); });
}

/// Divides the batch among candidates.groups and maximises F in each, with scores scaled as set in the candidates.
/// Picks are ordered by decreasing gain, which keeps the order within each class. The certificate holds for all batches
/// with the same share per class, and the same part of the budget with a cost limit. Returns an error if alpha is
/// outside [0, 1] or a kernel has values outside [0, 1], because F would not be monotone.
absl::StatusOr<Selection> SelectDiverseBatch(const Candidates& candidates) {
  FULCRUM_RETURN_IF_ERROR(CheckAlpha(candidates.alpha));
  const std::span<const Group> groups = candidates.groups;
  std::vector<std::vector<std::size_t>> labeled;
  for (const Group& group : groups) labeled.push_back(LabeledPositions(candidates, group));
  const std::vector<std::size_t> shares = SharesOf(candidates, labeled);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (shares[g] == 0) continue;
    FULCRUM_RETURN_IF_ERROR(CheckScores("leverage", groups[g].rows, groups[g].leverage));
    FULCRUM_RETURN_IF_ERROR(CheckKernel(candidates, groups[g]));
  }
  std::vector<absl::StatusOr<GreedyBatch>> batches(groups.size(), GreedyBatch());
  if (candidates.cost.limits()) {
    batches = BuyBatches(candidates, labeled, shares);
  } else {
    ParallelForBlocks(groups.size(), 1, [&](std::size_t g, std::size_t) {
      if (shares[g] > 0) batches[g] = ChooseFrom(candidates, groups[g], labeled[g], shares[g]);
    });
  }
  Selection selection;
  selection.has_certificate = true;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    FULCRUM_RETURN_IF_ERROR(batches[g].status());
    AppendPicks(groups[g], *batches[g], selection);
  }
  SortByGain(selection.picks);
  return selection;
}

class Dbalevs final : public Strategy {
 public:
  Requirements requirements() const override {
    return {.predictions = true, .class_groups = true, .bounds_suffice = true};
  }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectDiverseBatch(candidates);
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeDbalevs() {
  return std::make_unique<Dbalevs>();
}

namespace {

/// ALEVS, paper section "Proposed Sequential Active Learning Method": the unlabeled example with the largest leverage
/// score, scaled by m/k inside its class so that classes compare. In a batch: the b largest.
class Alevs final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .class_groups = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const ScoredRows scored = ScoreUnlabeledByLeverage(candidates);
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(scored.rows, scored.scores, candidates.batch));
    AnnotateFromGroups(candidates, selection.picks);
    return selection;
  }
};

/// Leverage over the whole pool, computed without classes: highest unlabeled first. One query a round in the paper,
/// which calls the batches of it top-lev.
class LevOnAll final : public Strategy {
 public:
  Requirements requirements() const override { return {.pool_leverage = true}; }
  bool needs_labels() const override { return false; }
  bool ignores_answers() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    std::vector<double> scores;
    scores.reserve(rows.size());
    for (const RowIndex row : rows) scores.push_back(candidates.pool_leverage[row]);
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(rows, scores, candidates.batch));
    for (Pick& pick : selection.picks) pick.leverage = pick.gain;
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeAlevs() {
  return std::make_unique<Alevs>();
}

std::unique_ptr<Strategy> MakeLevOnAll() {
  return std::make_unique<LevOnAll>();
}

std::unique_ptr<Strategy> MakeTopLev() {
  return MakeLevOnAll();
}

}  // namespace fulcrum::select
