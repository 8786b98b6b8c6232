// Combines leverage, coverage and uncertainty, which the paper names as future work. A query is useful if its answer
// reduces the doubt about other examples (DoubtReduction in posterior.h: coverage, weighted by doubt), and if the
// example contributes much to the kernel matrix of the pool (leverage over the whole pool, which does not depend on
// predictions):
//   s = 0.8 rank(reduction of doubt) + 0.2 rank(leverage),  ranks over the candidates, from 0 to 1.
// There is no schedule. At first everything is in doubt, and s is as good as experimental design. Later the doubts are
// at the class boundary, and s acts like uncertainty, with one example per region. Doubts come from a Gaussian process
// with the classifier's kernel and noise 0.1, with equal weights for the classes. While a class lags, class_groups.cc
// restricts the candidates.
//
// The examples of a batch are selected one by one. Each pick counts as labeled with its most likely class, in the
// variances and in the lag, so that the next pick covers another region. If there are more than 4,096 candidates, only
// those with the best scores, the same number per likely class, are evaluated again after a pick. With a cost limit the
// best score per cost that fits is picked, or the best score, whichever order removes more doubt; s is made of ranks,
// so there is no guarantee.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr double kNoise = 0.1;
constexpr double kLeverageShare = 0.2;
constexpr std::size_t kReferences = 512;
constexpr std::size_t kLongestShortlist = 4096;
// References are evaluated again with every block.
constexpr std::size_t kCandidatesPerBlock = 8 * kReferences;

using Positions = std::vector<std::size_t>;

Positions PositionsFrom(std::size_t first, std::size_t count) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

/// The same for every round of a campaign with the same number of candidates; the choice of references is arbitrary.
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

/// The best candidates of every likely class by their scores, `each` at most, ascending.
Positions ShortlistOf(std::span<const RowIndex> rows, std::span<const double> scores,
                      std::span<const std::size_t> likely_class, std::size_t classes, std::size_t each) {
  Positions shortlist;
  for (std::size_t c = 0; c < classes; ++c) {
    Positions own;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (likely_class[i] == c) own.push_back(i);
    }
    const std::size_t kept = std::min(own.size(), each);
    std::ranges::partial_sort(own, own.begin() + static_cast<std::ptrdiff_t>(kept), [&](std::size_t a, std::size_t b) {
      return GoesBefore(scores[a], rows[a], scores[b], rows[b]);
    });
    shortlist.insert(shortlist.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  std::ranges::sort(shortlist);
  return shortlist;
}

/// As many of each class as the whole batch, so that a shortlist cannot run out before the pool does.
std::size_t MostOfClass(std::size_t classes, std::size_t batch) {
  return std::max(kLongestShortlist / classes, batch);
}

/// For the first `count` candidates of a posterior, which the references follow.
DoubtReduction ReductionOf(const Posterior& posterior, std::size_t count, std::size_t references) {
  return DoubtReduction(posterior, PositionsFrom(0, count), PositionsFrom(count, references));
}

/// The covariances of a large pool do not fit into memory, so they are computed per block and discarded.
std::vector<double> ReductionsOf(const Posterior& everyone, std::span<const RowIndex> rows,
                                 std::span<const RowIndex> references) {
  std::vector<double> reductions;
  reductions.reserve(rows.size());
  for (std::size_t first = 0; first < rows.size(); first += kCandidatesPerBlock) {
    ThrowIfStopRequested();
    const std::size_t count = std::min(kCandidatesPerBlock, rows.size() - first);
    RowList seen(rows.begin() + static_cast<std::ptrdiff_t>(first),
                 rows.begin() + static_cast<std::ptrdiff_t>(first + count));
    seen.insert(seen.end(), references.begin(), references.end());
    const Posterior posterior = everyone.Over(seen, 1);
    const std::vector<double> of_block = ReductionOf(posterior, count, references.size()).Scores();
    reductions.insert(reductions.end(), of_block.begin(), of_block.end());
  }
  return reductions;
}

/// The candidates that are evaluated after every pick, in the order of their rows.
struct Listed {
  RowList rows;
  std::vector<double> leverage;
  Matrix<double> means;  ///< one row per candidate
  std::vector<std::size_t> likely_class;
  std::vector<double> costs = {};  ///< empty: they do not count
};

/// Selects one by one from a list.
class Questions {
 public:
  /// `counts` are labels by class. Keeps a reference to the list.
  Questions(const Listed& listed, std::vector<std::size_t> counts)
      : listed_(listed), counts_(std::move(counts)), taken_(listed.rows.size(), false) {}

  /// What may be spent; with an order by which what fits is chosen.
  void Limit(double budget, BuyingOrder order) {
    purse_.emplace(budget);
    order_ = order;
  }
  /// The doubt that the picks remove, one after the other.
  double removed() const { return removed_; }

  /// `posterior` is over the list and so many references behind it. Rows of picks are positions in the list. Fewer than
  /// the batch if no more fit.
  absl::StatusOr<std::vector<Pick>> Choose(Posterior posterior, std::size_t references, std::size_t batch) {
    DoubtReduction reduction = ReductionOf(posterior, listed_.rows.size(), references);
    std::vector<Pick> picks;
    while (picks.size() < batch) {
      ThrowIfStopRequested();
      const std::vector<double> reductions = reduction.Scores();
      FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> scores, Mix(listed_.rows, reductions, listed_.leverage));
      const std::size_t best = BestEligible(scores);
      if (best == listed_.rows.size()) break;
      taken_[best] = true;
      removed_ += reductions[best];
      if (purse_) purse_->Pay(listed_.costs[best]);
      picks.push_back({.row = static_cast<RowIndex>(best), .leverage = listed_.leverage[best], .gain = scores[best]});
      if (picks.size() == batch) break;
      posterior.Label(best);
      reduction.Follow();
      ++counts_[listed_.likely_class[best]];
    }
    return picks;
  }

 private:
  /// Rows ascend, so ties go to the smaller row. The size of the list if none fits.
  std::size_t BestEligible(std::span<const double> scores) const {
    Positions untaken;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (!taken_[i] && (!purse_ || purse_->CanPay(listed_.costs[i]))) untaken.push_back(i);
    }
    if (untaken.empty()) return taken_.size();
    const auto priority = [&](std::size_t i) {
      return purse_ ? PriorityOf(order_, scores[untaken[i]], listed_.costs[untaken[i]]) : scores[untaken[i]];
    };
    Matrix<double> means(untaken.size(), counts_.size());
    for (std::size_t i = 0; i < untaken.size(); ++i) {
      std::ranges::copy(listed_.means.row(untaken[i]), means.row(i).begin());
    }
    const std::vector<bool> eligible = EligibleForLaggingClass(counts_, means.view());
    std::size_t best = untaken.size();
    for (std::size_t i = 0; i < untaken.size(); ++i) {
      if (eligible[i] && (best == untaken.size() || LargerFirst()(priority(i), priority(best)))) best = i;
    }
    return untaken[best];
  }

  const Listed& listed_;
  std::vector<std::size_t> counts_;  // labels by class, including picks of this batch
  std::vector<bool> taken_;
  std::optional<Purse> purse_;
  BuyingOrder order_ = BuyingOrder::kGain;
  double removed_ = 0;
};

/// Takes the candidates at some positions into a list.
Listed ListOf(const Posterior& everyone, std::span<const RowIndex> rows, std::span<const double> leverage,
              std::span<const std::size_t> likely_class, std::span<const std::size_t> positions) {
  Listed listed;
  listed.means = Matrix<double>(positions.size(), everyone.means().cols());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    listed.rows.push_back(rows[positions[i]]);
    listed.leverage.push_back(leverage[positions[i]]);
    listed.likely_class.push_back(likely_class[positions[i]]);
    std::ranges::copy(everyone.means().row(positions[i]), listed.means.row(i).begin());
  }
  return listed;
}

/// Scores by which the shortlist is made: per cost, and nothing that the budget does not allow.
std::vector<double> WeighCosts(const CostLimit& limit, std::span<const RowIndex> rows, std::vector<double> scores) {
  if (!limit.limits()) return scores;
  const Purse purse(limit.budget);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double cost = limit.costs[rows[i]];
    scores[i] = purse.CanPay(cost) ? PriorityOf(BuyingOrder::kGainPerCost, scores[i], cost) : -1;
  }
  return scores;
}

class Hybrid final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .pool_leverage = true}; }
  bool weighs_costs() const override { return true; }

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
    const std::vector<std::size_t> likely_class = LikelyClasses(everyone.means());
    const RowList references = SampleReferences(rows, candidates.seed);
    std::vector<double> leverage;
    for (const RowIndex row : rows) leverage.push_back(candidates.pool_leverage[row]);
    Positions open = PositionsFrom(0, rows.size());
    if (rows.size() > kLongestShortlist) {
      FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> scores,
                               Mix(rows, ReductionsOf(everyone, rows, references), leverage));
      open = ShortlistOf(rows, WeighCosts(candidates.cost, rows, scores), likely_class, counts.size(),
                         MostOfClass(counts.size(), batch));
    }
    Listed listed = ListOf(everyone, rows, leverage, likely_class, open);
    RowList seen = listed.rows;
    seen.insert(seen.end(), references.begin(), references.end());
    Selection selection;
    if (candidates.cost.limits()) {
      for (const RowIndex row : listed.rows) listed.costs.push_back(candidates.cost.costs[row]);
      double most_removed = -1;
      for (const BuyingOrder order : kBuyingOrders) {
        Questions questions(listed, counts);
        questions.Limit(candidates.cost.budget, order);
        FULCRUM_ASSIGN_OR_RETURN(std::vector<Pick> picks,
                                 questions.Choose(everyone.Over(seen, batch), references.size(), batch));
        if (!LargerFirst()(questions.removed(), most_removed)) continue;
        most_removed = questions.removed();
        selection.picks = std::move(picks);
      }
    } else {
      FULCRUM_ASSIGN_OR_RETURN(
          selection.picks,
          Questions(listed, std::move(counts)).Choose(everyone.Over(seen, batch), references.size(), batch));
    }
    for (Pick& pick : selection.picks) pick.row = listed.rows[pick.row];
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

/// One selection over several processes.
class HybridTogether {
 public:
  explicit HybridTogether(const SharedHybrid& shared)
      : shared_(shared), peers_(shared.peers), group_(shared.peers, shared.rows.size()) {
    counts_ = LabelCounts(shared.labels, shared.class_count);
    RowList positions(shared.labels.size());
    std::iota(positions.begin(), positions.end(), RowIndex{0});
    targets_ = BalancedTargets(shared.labels, positions, counts_);
    batch_ = std::min(shared.batch, group_.size());
  }

  absl::StatusOr<std::vector<Pick>> Run() {
    const std::size_t guests_before = shared_.features.rows();
    const RowList references = ShareReferences();
    const absl::StatusOr<Posterior> everyone = PosteriorOver(shared_.features, shared_.labeled, shared_.rows, 0);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, everyone.status()));
    const std::vector<std::size_t> likely_class = LikelyClasses(everyone->means());
    FULCRUM_ASSIGN_OR_RETURN(const Positions own, OwnShortlist(*everyone, references, likely_class));
    Listed listed = ListOf(*everyone, shared_.rows, shared_.leverage, likely_class, own);
    Matrix<double> features = kernel::GatherRows(peers_, shared_.features, listed.rows);
    GatherList(listed);
    absl::StatusOr<std::vector<Pick>> picks = std::vector<Pick>();
    if (peers_.is_root()) picks = ChooseAtRoot(listed, features.view(), references);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, picks.status()));
    BroadcastValues(peers_, *picks);
    shared_.features.DropFrom(guests_before);
    return picks;
  }

 private:
  absl::StatusOr<Posterior> PosteriorOver(const kernel::Features& features, std::span<const RowIndex> labeled,
                                          std::span<const RowIndex> rows, std::size_t updates) const {
    return Posterior::Compute({.features = &features,
                               .kernel = shared_.kernel,
                               .labeled = labeled,
                               .candidates = rows,
                               .noise = kNoise,
                               .targets = targets_.view(),
                               .updates = updates});
  }

  RowList ShareReferences() const {
    RowList positions;
    if (peers_.is_root()) {
      RowList all(group_.size());
      std::iota(all.begin(), all.end(), RowIndex{0});
      positions = SampleReferences(std::move(all), shared_.seed);
    }
    BroadcastValues(peers_, positions);
    RowList own;
    for (const RowIndex position : positions) {
      if (group_.IsOwn(position)) own.push_back(shared_.rows[position - group_.first()]);
    }
    return shared_.features.Add(kernel::ShareRows(peers_, shared_.features, own).view());
  }

  /// Own positions of the shortlist of all candidates.
  absl::StatusOr<Positions> OwnShortlist(const Posterior& everyone, std::span<const RowIndex> references,
                                         std::span<const std::size_t> likely_class) const {
    if (group_.size() <= kLongestShortlist) return PositionsFrom(0, shared_.rows.size());
    const std::vector<double> reductions = GatherValues(peers_, ReductionsOf(everyone, shared_.rows, references));
    const std::vector<double> leverage =
        GatherValues(peers_, std::vector<double>(shared_.leverage.begin(), shared_.leverage.end()));
    const std::vector<std::size_t> likely =
        GatherValues(peers_, std::vector<std::size_t>(likely_class.begin(), likely_class.end()));
    Positions shortlist;
    absl::Status mixed;
    if (peers_.is_root()) {
      RowList rows(group_.size());
      std::iota(rows.begin(), rows.end(), RowIndex{0});
      const absl::StatusOr<std::vector<double>> scores = Mix(rows, reductions, leverage);
      mixed = scores.status();
      if (scores.ok()) {
        shortlist = ShortlistOf(rows, *scores, likely, counts_.size(), MostOfClass(counts_.size(), batch_));
      }
    }
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, mixed));
    BroadcastValues(peers_, shortlist);
    Positions own;
    for (const std::size_t position : shortlist) {
      if (group_.IsOwn(position)) own.push_back(position - group_.first());
    }
    return own;
  }

  /// The lists of all ranks, with rows of the pool, at the root.
  void GatherList(Listed& listed) const {
    for (RowIndex& row : listed.rows) row += static_cast<RowIndex>(shared_.first_row);
    listed.rows = GatherValues(peers_, std::move(listed.rows));
    listed.leverage = GatherValues(peers_, std::move(listed.leverage));
    listed.likely_class = GatherValues(peers_, std::move(listed.likely_class));
    std::vector<double> means;
    for (std::size_t i = 0; i < listed.means.rows(); ++i) {
      means.insert(means.end(), listed.means.row(i).begin(), listed.means.row(i).end());
    }
    means = GatherValues(peers_, std::move(means));
    listed.means = Matrix<double>::CopyOf(ConstMatrixView(means.data(), means.size() / counts_.size(), counts_.size()));
  }

  /// From the features of the list.
  absl::StatusOr<std::vector<Pick>> ChooseAtRoot(const Listed& listed, ConstMatrixView features,
                                                 const RowList& references) const {
    kernel::GuestFeatures joined(shared_.features);
    RowList seen = joined.Add(features);
    seen.insert(seen.end(), references.begin(), references.end());
    FULCRUM_ASSIGN_OR_RETURN(Posterior posterior, PosteriorOver(joined, shared_.labeled, seen, batch_));
    FULCRUM_ASSIGN_OR_RETURN(std::vector<Pick> picks,
                             Questions(listed, counts_).Choose(std::move(posterior), references.size(), batch_));
    for (Pick& pick : picks) pick.row = listed.rows[pick.row];
    return picks;
  }

  const SharedHybrid& shared_;
  const Communicator& peers_;
  const GroupPeers group_;
  std::vector<std::size_t> counts_;
  Matrix<double> targets_;
  std::size_t batch_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> MakeHybrid() {
  return std::make_unique<Hybrid>();
}

absl::StatusOr<std::vector<Pick>> SelectHybridTogether(const SharedHybrid& shared) {
  return HybridTogether(shared).Run();
}

}  // namespace fulcrum::select
