#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/cluster/cluster_round.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/streamed_greedy.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

using select::Pick;
using select::Selection;

/// The own rows as one process would see them that has no others.
select::Candidates OwnCandidates(const ClusterCandidates& all) {
  select::Candidates own;
  own.features = &all.pool.features;
  own.leverage_kernel = all.spec.leverage_kernel;
  own.classifier_kernel = all.spec.svm.kernel;
  own.class_count = all.input.class_count;
  own.labels = all.own_labels;
  own.predicted = all.predicted;
  own.confidence = all.confidence;
  own.margin = all.margin;
  if (!all.probabilities.empty()) {
    own.probabilities = {all.probabilities.data(), all.predicted.size(), all.input.class_count};
  }
  own.pool_leverage = all.pool_leverage;
  own.queries_so_far = all.input.queries_so_far;
  own.batch = all.batch;
  own.alpha = all.spec.alpha;
  own.scale = all.spec.leverage_scale;
  own.seed = all.spec.seed;
  return own;
}

Selection WithoutCertificate(std::vector<Pick> picks) {
  Selection selection;
  selection.picks = std::move(picks);
  return selection;
}

/// The best of all proposals, whose rows are own rows; ties go to the smaller row of the pool.
std::vector<Pick> MergeBest(const ClusterCandidates& all, std::vector<Pick> proposals) {
  for (Pick& pick : proposals) pick.row += static_cast<RowIndex>(all.pool.share.first);
  std::vector<Pick> merged = ShareValues(all.pool.peers, std::move(proposals));
  std::ranges::sort(merged,
                    [](const Pick& a, const Pick& b) { return select::GoesBefore(a.gain, a.row, b.gain, b.row); });
  if (merged.size() > all.batch) merged.resize(all.batch);
  return merged;
}

/// Strategies that pick the rows with the largest scores: each rank proposes a batch of its own.
absl::StatusOr<Selection> SelectByScore(const ClusterCandidates& all, const std::string& name) {
  FULCRUM_ASSIGN_OR_RETURN(const auto strategy, select::MakeStrategy(name));
  absl::StatusOr<Selection> own = Selection();
  if (!all.own_labels.empty()) own = strategy->Select(OwnCandidates(all));
  FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, own.status()));
  return WithoutCertificate(MergeBest(all, std::move(own->picks)));
}

absl::StatusOr<Selection> SelectByClassLeverage(const ClusterCandidates& all) {
  RowList rows;
  std::vector<double> scores;
  std::map<RowIndex, Pick> known;
  for (const ClusterGroup& group : all.groups) {
    const double factor = group.rank > 0 ? static_cast<double>(group.total) / static_cast<double>(group.rank) : 1;
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      if (all.own_labels[group.rows[i]] != kUnlabeled) continue;
      rows.push_back(group.rows[i]);
      scores.push_back(group.leverage[i] * factor);
    }
  }
  absl::StatusOr<std::vector<Pick>> own = select::TopByScore(rows, scores, all.batch);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, own.status()));
  for (Pick& pick : *own) known[pick.row] = {};
  for (const ClusterGroup& group : all.groups) {
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      const auto found = known.find(group.rows[i]);
      if (found == known.end()) continue;
      found->second.class_index = group.class_index;
      found->second.leverage = group.leverage[i];
    }
  }
  for (Pick& pick : *own) {
    pick.class_index = known[pick.row].class_index;
    pick.leverage = known[pick.row].leverage;
  }
  return WithoutCertificate(MergeBest(all, *std::move(own)));
}

/// Sets the predicted class of each pick, whose rows are those of the pool.
void AnnotatePicks(const ClusterCandidates& all, std::vector<Pick>& picks) {
  if (std::ranges::max(ShareValue(all.pool.peers, all.predicted.size())) == 0) return;
  const RowShare& share = all.pool.share;
  struct Known {
    std::size_t index;
    ClassIndex class_index;
  };
  std::vector<Known> known;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::size_t row = picks[i].row;
    if (row < share.first || row >= share.first + share.count) continue;
    known.push_back({i, all.predicted[row - share.first]});
  }
  for (const Known& one : ShareValues(all.pool.peers, std::move(known))) picks[one.index].class_index = one.class_index;
}

absl::StatusOr<Selection> SelectAtRandom(const ClusterCandidates& all) {
  const RowList unlabeled = select::UnlabeledRows(all.own_labels);
  const std::vector<std::size_t> sizes = ShareValue(all.pool.peers, unlabeled.size());
  const auto mine = sizes.begin() + all.pool.peers.rank();
  const std::size_t first = std::accumulate(sizes.begin(), mine, std::size_t{0});
  const std::size_t total = std::accumulate(mine, sizes.end(), first);
  Random random = Random::Fork(all.spec.seed, all.input.queries_so_far);
  struct Drawn {
    std::size_t index;
    std::size_t row;
  };
  std::vector<Drawn> drawn;
  const std::vector<std::uint64_t> positions = DrawDifferent(total, all.batch, random);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < first || positions[i] >= first + unlabeled.size()) continue;
    drawn.push_back({i, all.pool.share.first + unlabeled[positions[i] - first]});
  }
  Selection selection;
  selection.picks.resize(positions.size());
  for (const Drawn& one : ShareValues(all.pool.peers, std::move(drawn))) {
    selection.picks[one.index].row = static_cast<RowIndex>(one.row);
  }
  AnnotatePicks(all, selection.picks);
  return selection;
}

/// The references of a cover, and how far they are from the labeled rows (as PoolCover of submodular_greedy.h).
struct SharedCover {
  RowList own;                       ///< references that are own rows
  RowList references;                ///< all of them, as guests
  std::vector<double> nearest = {};  ///< by reference
  std::unique_ptr<select::LocalScales> scales = {};
};

SharedCover MakeCover(const ClusterCandidates& all) {
  const RowShare& share = all.pool.share;
  SharedCover cover;
  for (const RowIndex row : select::SampleReferences(share.total, all.labeled.size() + all.batch, all.spec.seed)) {
    if (row < share.first || row >= share.first + share.count) continue;
    cover.own.push_back(static_cast<RowIndex>(row - share.first));
  }
  cover.references = all.features.Add(kernel::ShareRows(all.pool.peers, all.pool.features, cover.own).view());
  cover.scales = std::make_unique<select::LocalScales>(all.features, cover.references);
  cover.nearest = select::NearestSquaredDistances(all.features, select::Distance::kLocal, cover.references, all.labeled,
                                                  cover.scales.get());
  return cover;
}

absl::StatusOr<Selection> SelectCover(const ClusterCandidates& all, const SharedCover& cover,
                                      const select::CoverWeights& weights) {
  FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, select::CheckScores("weight", cover.references, weights.weights)));
  const RowList unlabeled = select::UnlabeledRows(all.own_labels);
  Selection selection;
  FULCRUM_ASSIGN_OR_RETURN(selection.picks, select::MaximizeCoverage({.features = &all.features,
                                                                      .distance = select::Distance::kLocal,
                                                                      .scales = cover.scales.get(),
                                                                      .width = weights.width,
                                                                      .references = cover.references,
                                                                      .weights = weights.weights,
                                                                      .nearest = cover.nearest,
                                                                      .candidates = unlabeled,
                                                                      .batch = all.batch,
                                                                      .peers = all.pool.peers,
                                                                      .guests = &all.features,
                                                                      .first_row = all.pool.share.first}));
  all.features.DropFrom(cover.references[0]);
  AnnotatePicks(all, selection.picks);
  return selection;
}

/// As strategies/herding.cc does.
absl::StatusOr<Selection> SelectByCoverage(const ClusterCandidates& all) {
  const SharedCover cover = MakeCover(all);
  const double width = std::sqrt(select::MedianSquaredDistance(all.features, cover.references, cover.scales.get()) / 2);
  return SelectCover(all, cover, {width, std::vector<double>(cover.references.size(), 1.0)});
}

absl::Status CheckMargins(const ClusterCandidates& all) {
  const RowList unlabeled = select::UnlabeledRows(all.own_labels);
  std::vector<double> margins;
  for (const RowIndex row : unlabeled) margins.push_back(all.margin[row]);
  return select::CheckScores("margin", unlabeled, margins);
}

/// As strategies/adaptive_herding.cc does.
absl::StatusOr<Selection> SelectByAdaptiveCoverage(const ClusterCandidates& all) {
  if (all.labeled.empty()) return SelectByCoverage(all);
  const bool given = all.input.predictions.has_value();
  if (!given) FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, CheckMargins(all)));
  const SharedCover cover = MakeCover(all);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, select::CheckScores("distance", cover.references, cover.nearest)));
  std::vector<double> margins;
  if (given) {
    // Every rank has the labeled rows and the references, and computes the same.
    auto found = select::MarginsOfLeastSquares(all.features, all.spec.svm.kernel, all.labeled, all.labels,
                                               all.input.class_count, cover.references);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, found.status()));
    margins = *std::move(found);
  } else {
    for (const RowIndex row : cover.own) margins.push_back(all.margin[row]);
    margins = ShareValues(all.pool.peers, std::move(margins));
  }
  const double labels_per_class = static_cast<double>(all.labeled.size()) / static_cast<double>(all.input.class_count);
  return SelectCover(all, cover, select::AdaptiveCover(cover.nearest, margins, labels_per_class));
}

absl::StatusOr<Selection> SelectByHybrid(const ClusterCandidates& all) {
  const RowList unlabeled = select::UnlabeledRows(all.own_labels);
  std::vector<double> leverage;
  for (const RowIndex row : unlabeled) leverage.push_back(all.pool_leverage[row]);
  Selection selection;
  FULCRUM_ASSIGN_OR_RETURN(selection.picks, select::SelectHybridTogether({.peers = all.pool.peers,
                                                                          .features = all.features,
                                                                          .kernel = all.spec.svm.kernel,
                                                                          .labeled = all.labeled,
                                                                          .labels = all.labels,
                                                                          .class_count = all.input.class_count,
                                                                          .rows = unlabeled,
                                                                          .leverage = leverage,
                                                                          .first_row = all.pool.share.first,
                                                                          .batch = all.batch,
                                                                          .seed = all.spec.seed}));
  AnnotatePicks(all, selection.picks);
  return selection;
}

// Picks of dbalevs.

/// The picks of one class: rows are positions in the class.
struct ClassBatch {
  std::vector<Pick> picks = {};
  select::Certificate certificate = {};
};

absl::StatusOr<ClassBatch> ChooseAtRoot(const ClusterCandidates& all, const ClusterGroup& group, std::size_t share) {
  ClassBatch batch;
  absl::Status status;
  if (all.pool.peers.is_root()) {
    const GatheredClass& gathered = *group.gathered;
    select::Group of_class;
    of_class.class_index = group.class_index;
    of_class.rows = gathered.scored.rows;
    of_class.leverage = gathered.scored.scores;
    of_class.rank = group.rank;
    of_class.kernel = gathered.scored.kernel;
    select::Candidates candidates = OwnCandidates(all);
    candidates.features = gathered.features.get();
    candidates.labels = gathered.labels;
    candidates.groups = std::span(&of_class, 1);
    candidates.batch = share;
    FULCRUM_ASSIGN_OR_RETURN(const auto strategy, select::MakeStrategy("dbalevs"));
    absl::StatusOr<Selection> selection = strategy->Select(candidates);
    status = selection.status();
    if (selection.ok()) batch = {std::move(selection->picks), selection->certificate};
  }
  FULCRUM_RETURN_IF_ERROR(AgreeOn(all.pool.peers, status));
  BroadcastValues(all.pool.peers, batch.picks);
  batch.certificate = BroadcastValue(all.pool.peers, batch.certificate);
  return batch;
}

/// As LeverageFactor of strategies/strategy_parts.h, for the whole class.
double FactorOf(const ClusterCandidates& all, const ClusterGroup& group) {
  switch (all.spec.leverage_scale) {
    case select::LeverageScale::kNone:
      return 1;
    case select::LeverageScale::kMean:
      return group.rank > 0 ? static_cast<double>(group.total) / static_cast<double>(group.rank) : 1;
    case select::LeverageScale::kMax:
      break;
  }
  const double own = group.leverage.empty() ? 0 : std::ranges::max(group.leverage);
  const double largest = std::ranges::max(ShareValue(all.pool.peers, own));
  return largest > 0 ? 1 / largest : 1;
}

absl::StatusOr<ClassBatch> ChooseTogether(const ClusterCandidates& all, const ClusterGroup& group, std::size_t share) {
  const Communicator& peers = all.pool.peers;
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, select::CheckScores("leverage", group.rows, group.leverage)));
  const double factor = FactorOf(all, group);
  std::vector<double> scores = group.leverage;
  for (double& score : scores) score *= factor;
  const std::size_t guests_before = all.features.rows();
  FULCRUM_ASSIGN_OR_RETURN(const select::GreedyBatch found,
                           select::MaximizeStreamed({.features = &all.features,
                                                     .kernel = all.spec.leverage_kernel,
                                                     .rows = group.rows,
                                                     .scores = scores,
                                                     .labeled = group.labeled,
                                                     .batch = share,
                                                     .alpha = all.spec.alpha,
                                                     .peers = peers,
                                                     .guests = &all.features,
                                                     .given = group.given}));
  all.features.DropFrom(guests_before);
  struct Known {
    std::size_t index;
    double leverage;
  };
  std::vector<Known> known;
  ClassBatch batch{.certificate = {found.value, found.upper_bound}};
  for (std::size_t i = 0; i < found.positions.size(); ++i) {
    const std::size_t position = found.positions[i];
    batch.picks.push_back(
        {.row = static_cast<RowIndex>(position), .class_index = group.class_index, .gain = found.gains[i]});
    if (position >= group.first && position < group.first + group.rows.size()) {
      known.push_back({i, group.leverage[position - group.first]});
    }
  }
  for (const Known& one : ShareValues(peers, std::move(known))) batch.picks[one.index].leverage = one.leverage;
  return batch;
}

/// Turns positions in a class into rows of the pool.
void NameRows(const ClusterCandidates& all, const ClusterGroup& group, std::vector<Pick>& picks) {
  struct Known {
    std::size_t index;
    std::size_t row;
  };
  std::vector<Known> known;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::size_t position = picks[i].row;
    if (position < group.first || position >= group.first + group.rows.size()) continue;
    known.push_back({i, all.pool.share.first + group.rows[position - group.first]});
  }
  for (const Known& one : ShareValues(all.pool.peers, std::move(known))) {
    picks[one.index].row = static_cast<RowIndex>(one.row);
  }
}

absl::StatusOr<Selection> SelectDiverse(const ClusterCandidates& all) {
  std::vector<std::size_t> labeled, available;
  for (const ClusterGroup& group : all.groups) {
    labeled.push_back(group.labeled_total);
    available.push_back(group.total - group.labeled_total);
  }
  const std::vector<std::size_t> shares = select::DivideBatch(all.batch, labeled, available);
  Selection selection;
  selection.has_certificate = true;
  for (std::size_t g = 0; g < all.groups.size(); ++g) {
    const ClusterGroup& group = all.groups[g];
    if (shares[g] == 0) continue;
    absl::StatusOr<ClassBatch> batch =
        group.is_gathered ? ChooseAtRoot(all, group, shares[g]) : ChooseTogether(all, group, shares[g]);
    FULCRUM_RETURN_IF_ERROR(batch.status());
    NameRows(all, group, batch->picks);
    selection.picks.insert(selection.picks.end(), batch->picks.begin(), batch->picks.end());
    selection.certificate.value += batch->certificate.value;
    selection.certificate.upper_bound += batch->certificate.upper_bound;
  }
  std::ranges::stable_sort(selection.picks,
                           [](const Pick& a, const Pick& b) { return select::LargerFirst()(a.gain, b.gain); });
  return selection;
}

using Selector = std::function<absl::StatusOr<Selection>(const ClusterCandidates&)>;

const std::map<std::string, Selector>& Selectors() {
  static const auto* const selectors = [] {
    auto* const all = new std::map<std::string, Selector>{{"adaptive-herding", SelectByAdaptiveCoverage},
                                                          {"alevs", SelectByClassLeverage},
                                                          {"dbalevs", SelectDiverse},
                                                          {"herding", SelectByCoverage},
                                                          {"hybrid", SelectByHybrid},
                                                          {"random", SelectAtRandom}};
    for (const char* name :
         {"entropy", "least-confident", "lev-on-all", "margin", "most-confident", "top-lev", "uncertainty"}) {
      (*all)[name] = [name](const ClusterCandidates& candidates) { return SelectByScore(candidates, name); };
    }
    return all;
  }();
  return *selectors;
}

}  // namespace

absl::Status CheckClusterStrategy(const std::string& strategy) {
  if (Selectors().contains(strategy)) return absl::OkStatus();
  const auto append_name = [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); };
  return absl::InvalidArgumentError(
      absl::StrCat("strategy '", strategy, "' does not run over several processes; choose ",
                   absl::StrJoin(Selectors(), ", ", append_name), ", or run it in one process"));
}

namespace {

/// As HalfByChance of round.cc does.
absl::StatusOr<Selection> SelectHalfByChance(ClusterCandidates& all, const Selector& by_strategy) {
  const std::size_t batch = all.batch;
  Selection selection;
  all.batch = PicksOfStrategy(batch, all.input.queries_so_far);
  if (all.batch > 0) {
    FULCRUM_ASSIGN_OR_RETURN(selection, by_strategy(all));
  }
  if (selection.picks.size() < all.batch) return selection;  // nothing is left
  const RowShare& share = all.pool.share;
  std::vector<ClassIndex> taken(all.own_labels.begin(), all.own_labels.end());
  for (const Pick& pick : selection.picks) {
    if (pick.row >= share.first && pick.row < share.first + share.count) taken[pick.row - share.first] = 0;
  }
  all.batch = batch - all.batch;
  all.own_labels = taken;
  FULCRUM_ASSIGN_OR_RETURN(const Selection more, SelectAtRandom(all));
  selection.picks.insert(selection.picks.end(), more.picks.begin(), more.picks.end());
  selection.has_certificate = false;
  all.own_labels = all.input.labels;
  return selection;
}

}  // namespace

absl::StatusOr<Selection> SelectTogether(ClusterCandidates& candidates, const RoundStrategy& strategy) {
  FULCRUM_RETURN_IF_ERROR(CheckClusterStrategy(strategy.name));
  const Selector& by_strategy = Selectors().at(strategy.name);
  // Excluded rows may be among the picks; the caller takes them out.
  candidates.batch = candidates.spec.batch + candidates.input.barred.size();
  candidates.own_labels = candidates.input.labels;
  return strategy.half_by_chance ? SelectHalfByChance(candidates, by_strategy) : by_strategy(candidates);
}

}  // namespace fulcrum::pipeline
