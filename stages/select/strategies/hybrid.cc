// Leverage, coverage and uncertainty in one: the paper's future work. A question is worth asking when its answer says
// much about examples whose class is still in doubt (doubt_reduction.h: coverage where the doubts are), and when the
// example shapes the kernel matrix of the pool (leverage over the whole pool, which no wrong prediction can mislead):
//   s = 0.8 rank(reduction of doubt) + 0.2 rank(leverage),  ranks over the candidates, from 0 to 1.
// There is no schedule: early on everything is in doubt and s is as strong as an experimental design, later the doubts
// are where the classes meet and s does what uncertainty does, one example a region. Doubts come from a Gaussian
// process with the classifier's kernel and noise 0.1, classes weighed alike. While a class lags, class_lag.h says who
// may be asked.
//
// A batch is chosen one by one: each pick counts as labeled, with the class it most likely has, in the variances and in
// the lag, so the next one is about something else. Of more than 4,096 candidates only those with the best scores, as
// many of each likely class, are looked at again after a pick.
#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/score_order.h"
#include "stages/select/strategies/class_lag.h"
#include "stages/select/strategies/strategies.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr double kNoise = 0.1;
constexpr double kLeverageShare = 0.2;
constexpr std::size_t kReferences = 512;
constexpr std::size_t kLongestShortlist = 4096;
// References are looked at again with every block.
constexpr std::size_t kCandidatesPerBlock = 8 * kReferences;

using Positions = std::vector<std::size_t>;

Positions PositionsFrom(std::size_t first, std::size_t count) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

/// The same for every round of a campaign with as many candidates left: nothing hangs on which ones these are.
RowList SampleReferences(RowList references, std::uint64_t seed) {
  if (references.size() <= kReferences) return references;
  Random random = Random::Fork(seed, references.size());
  random.Shuffle(std::span<RowIndex>(references));
  references.resize(kReferences);
  std::ranges::sort(references);
  return references;
}

absl::StatusOr<std::vector<double>> Mix(std::span<const RowIndex> rows, std::span<const double> reductions,
                                        std::span<const double> leverage) {
  FULCRUM_RETURN_IF_ERROR(CheckScores("reduction of doubt", rows, reductions));
  FULCRUM_RETURN_IF_ERROR(CheckScores("leverage", rows, leverage));
  std::vector<double> scores = ScaledRanks(reductions);
  const std::vector<double> ranks = ScaledRanks(leverage);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = (1 - kLeverageShare) * scores[i] + kLeverageShare * ranks[i];
  }
  return scores;
}

class Questions {
 public:
  /// `everyone` is over `rows`; both are kept.
  Questions(const Candidates& candidates, const RowList& rows, const Posterior& everyone,
            std::vector<std::size_t> counts)
      : candidates_(candidates),
        rows_(rows),
        everyone_(everyone),
        counts_(std::move(counts)),
        likely_class_(LikelyClasses(everyone.means())),
        references_(SampleReferences(rows, candidates.seed)) {}

  absl::StatusOr<std::vector<Pick>> Choose(std::size_t batch) {
    // As many of each class as the whole batch, so that the list cannot run out before the pool does.
    const std::size_t each = std::max(kLongestShortlist / counts_.size(), batch);
    open_ = PositionsFrom(0, rows_.size());
    if (rows_.size() > kLongestShortlist) {
      FULCRUM_ASSIGN_OR_RETURN(open_, Shortlist(each));
    }
    const RowList seen = WithReferences(open_);
    Posterior posterior = everyone_.Over(seen, batch);
    DoubtReduction reduction = ReductionOf(posterior, open_.size());
    taken_.assign(open_.size(), false);
    std::vector<Pick> picks;
    while (picks.size() < batch) {
      ThrowIfStopRequested();
      FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> scores,
                               Mix(std::span(seen).first(open_.size()), reduction.Scores(), LeverageOf(open_)));
      const std::size_t best = BestEligible(scores);
      taken_[best] = true;
      const RowIndex row = rows_[open_[best]];
      picks.push_back({.row = row, .leverage = candidates_.pool_leverage[row], .gain = scores[best]});
      if (picks.size() == batch) break;
      posterior.Label(best);
      reduction.Follow();
      ++counts_[likely_class_[open_[best]]];
    }
    return picks;
  }

 private:
  std::vector<double> LeverageOf(std::span<const std::size_t> positions) const {
    std::vector<double> leverage;
    leverage.reserve(positions.size());
    for (const std::size_t position : positions) leverage.push_back(candidates_.pool_leverage[rows_[position]]);
    return leverage;
  }

  /// The rows at some positions, and behind them the references.
  RowList WithReferences(std::span<const std::size_t> positions) const {
    RowList rows;
    rows.reserve(positions.size() + references_.size());
    for (const std::size_t position : positions) rows.push_back(rows_[position]);
    rows.insert(rows.end(), references_.begin(), references_.end());
    return rows;
  }

  /// Of the first `count` candidates of a posterior over WithReferences.
  DoubtReduction ReductionOf(const Posterior& posterior, std::size_t count) const {
    return DoubtReduction(posterior, PositionsFrom(0, count), PositionsFrom(count, references_.size()));
  }

  /// What a large pool has in common with the labeled and the references would not fit: block by block, and thrown
  /// away.
  std::vector<double> ReductionsOfAll() const {
    std::vector<double> reductions;
    reductions.reserve(rows_.size());
    for (std::size_t first = 0; first < rows_.size(); first += kCandidatesPerBlock) {
      ThrowIfStopRequested();
      const std::size_t count = std::min(kCandidatesPerBlock, rows_.size() - first);
      const RowList seen = WithReferences(PositionsFrom(first, count));
      const Posterior posterior = everyone_.Over(seen, 1);
      const std::vector<double> of_block = ReductionOf(posterior, count).Scores();
      reductions.insert(reductions.end(), of_block.begin(), of_block.end());
    }
    return reductions;
  }

  absl::StatusOr<Positions> Shortlist(std::size_t each) const {
    const Positions all = PositionsFrom(0, rows_.size());
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> scores, Mix(rows_, ReductionsOfAll(), LeverageOf(all)));
    Positions shortlist;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      Positions own;
      std::ranges::copy_if(all, std::back_inserter(own), [&](std::size_t i) { return likely_class_[i] == c; });
      const std::size_t kept = std::min(own.size(), each);
      std::ranges::partial_sort(
          own, own.begin() + static_cast<std::ptrdiff_t>(kept),
          [&](std::size_t a, std::size_t b) { return GoesBefore(scores[a], rows_[a], scores[b], rows_[b]); });
      shortlist.insert(shortlist.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    std::ranges::sort(shortlist);
    return shortlist;
  }

  /// By place in open_; rows ascend, so the first of equals is the smaller row.
  std::size_t BestEligible(std::span<const double> scores) const {
    Positions untaken;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!taken_[i]) untaken.push_back(i);
    }
    Matrix<double> means(untaken.size(), counts_.size());
    for (std::size_t i = 0; i < untaken.size(); ++i) {
      std::ranges::copy(everyone_.means().row(open_[untaken[i]]), means.row(i).begin());
    }
    const std::vector<bool> eligible = EligibleForLaggingClass(counts_, means.view());
    std::size_t best = untaken.size();
    for (std::size_t i = 0; i < untaken.size(); ++i) {
      if (eligible[i] && (best == untaken.size() || LargerFirst()(scores[untaken[i]], scores[untaken[best]]))) best = i;
    }
    return untaken[best];
  }

  const Candidates& candidates_;
  const RowList& rows_;
  const Posterior& everyone_;
  std::vector<std::size_t> counts_;  // labels by class, picks of this batch included
  const std::vector<std::size_t> likely_class_;
  const RowList references_;
  Positions open_;  // the candidates looked at, ascending
  std::vector<bool> taken_;
};

class Hybrid final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .pool_leverage = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    const RowList labeled = LabeledRows(candidates.labels);
    std::vector<std::size_t> counts = LabelCounts(candidates.labels, candidates.class_count);
    const Matrix<double> targets = BalancedTargets(candidates.labels, labeled, counts);
    const std::size_t batch = std::min(candidates.batch, rows.size());
    FULCRUM_ASSIGN_OR_RETURN(const Posterior everyone, Posterior::Compute({.features = candidates.features,
                                                                           .kernel = candidates.classifier_kernel,
                                                                           .labeled = labeled,
                                                                           .candidates = rows,
                                                                           .noise = kNoise,
                                                                           .targets = targets.view()}));
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, Questions(candidates, rows, everyone, std::move(counts)).Choose(batch));
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHybrid() {
  return std::make_unique<Hybrid>();
}

}  // namespace fulcrum::select
