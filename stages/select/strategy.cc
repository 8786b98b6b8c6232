#include "stages/select/strategy.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/core/status_macros.h"

namespace fulcrum::select {
namespace {

RowList RowsWhere(std::span<const ClassIndex> labels, bool labeled) {
  RowList rows;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if ((labels[row] != kUnlabeled) == labeled) rows.push_back(static_cast<RowIndex>(row));
  }
  return rows;
}

}  // namespace

RowList UnlabeledRows(std::span<const ClassIndex> labels) {
  return RowsWhere(labels, false);
}

RowList LabeledRows(std::span<const ClassIndex> labels) {
  return RowsWhere(labels, true);
}

absl::Status CheckScores(const char* what, std::span<const RowIndex> rows, std::span<const double> scores) {
  assert(rows.size() == scores.size());
  // The smallest row, not the first position, so that the message does not depend on the order of a group's rows.
  std::size_t first = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i]) && (first == rows.size() || rows[i] < rows[first])) first = i;
  }
  if (first == rows.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the %s of row %d of the pool (counted from 0) is not a number, so rows cannot be compared by it. The features "
      "or the parameters of a kernel are too large or too small for its values; normalize the features or choose other "
      "parameters.",
      what, rows[first]));
}

absl::StatusOr<std::vector<Pick>> TopByScore(std::span<const RowIndex> rows, std::span<const double> scores,
                                             std::size_t count) {
  FULCRUM_RETURN_IF_ERROR(CheckScores("score", rows, scores));
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), middle, order.end(),
                    [&](std::size_t a, std::size_t b) { return GoesBefore(scores[a], rows[a], scores[b], rows[b]); });
  std::vector<Pick> picks;
  for (auto position = order.begin(); position != middle; ++position) {
    picks.push_back({.row = rows[*position], .gain = scores[*position]});
  }
  return picks;
}

void AnnotateClasses(const Candidates& candidates, std::span<Pick> picks) {
  if (candidates.predicted.empty()) return;
  for (Pick& pick : picks) pick.class_index = candidates.predicted[pick.row];
}

absl::StatusOr<LeverageScale> ParseLeverageScale(std::string_view name) {
  if (name == "none") return LeverageScale::kNone;
  if (name == "mean") return LeverageScale::kMean;
  if (name == "max") return LeverageScale::kMax;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no scale '", std::string(name), "'; choose none, mean or max"));
}

absl::StatusOr<Selection> SelectTopByScore(const Candidates& candidates, const std::function<double(RowIndex)>& score) {
  const RowList rows = UnlabeledRows(candidates.labels);
  std::vector<double> scores;
  scores.reserve(rows.size());
  for (const RowIndex row : rows) scores.push_back(score(row));
  Selection selection;
  FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(rows, scores, candidates.batch));
  AnnotateClasses(candidates, selection.picks);
  return selection;
}

std::vector<double> ScaledRanks(std::span<const double> values) {
  const std::size_t size = values.size();
  if (size == 1) return {0.5};
  // From the end of the order to its start: NaN has the smallest rank.
  const LargerFirst larger_first;
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return larger_first(values[b], values[a]); });
  std::vector<double> ranks(size);
  for (std::size_t first = 0, last = 0; first < size; first = last) {
    while (last < size && !larger_first(values[order[last]], values[order[first]])) ++last;
    const double mean_rank = 0.5 * static_cast<double>(first + last - 1);
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = mean_rank / static_cast<double>(size - 1);
  }
  return ranks;
}

const std::vector<StrategyEntry>& Strategies() {
  static const auto* const strategies = new std::vector<StrategyEntry>{
      {"adaptive-herding", "what covers most of the doubt; from covering the pool to refining the border by itself",
       "the default, any number of classes, batches too: regret 1.5% on 24 sets; margin 2.7, random 6.1",
       MakeAdaptiveHerding},
      {"margin", "closest to the border, by the classifier's decision value",
       "late, one query a round (1.7%, as the default); early it is behind (6.3%, default 1.9)", MakeMargin},
      {"uncertainty", "margin by its usual name", "as margin", MakeMargin},
      {"entropy", "the largest entropy of the class probabilities", "as margin, if many classes are in doubt at once",
       MakeEntropy},
      {"least-confident", "the smallest probability of the predicted class (Platt)",
       "only to compare with the published results, whose \"uncertainty\" this is; margin is better",
       MakeLeastConfident},
      {"badge", "doubtful and different: k-means++ on gradients of the classifier",
       "large batches; regret 2.5% on 6 sets, the default 0.1", MakeBadge},
      {"committee", "what 16 classifiers on resampled labels disagree about most",
       "one query a round, if the classifier's own doubts are not trusted", MakeCommittee},
      {"uncertainty-herding", "coverage weighted by uncertainty, with the published width",
       "to compare with the published method; adaptive-herding finds its width from the pool", MakeUncertaintyHerding},
      {"herding", "what covers most of the pool; looks at no label's value",
       "a first batch: every strategy that needs labels begins with it; later regret 3.0%", MakeHerding},
      {"k-center", "farthest from everything labeled (core-set); looks at no label's value",
       "if every corner of the pool must be seen; it takes outliers first", MakeKCenter},
      {"typical", "the most typical example of each cluster without labels (TypiClust); looks at no label's value",
       "the first tens of labels on clustered data; regret 1.6% on 6 sets, the default 0.1", MakeTypical},
      {"hybrid", "what says most about examples still in doubt, with a share of leverage; classes kept even",
       "two classes; regret 2.4% on 24 sets, 5.1% on text", MakeHybrid},
      {"alevs", "the highest leverage within the predicted classes", "the first tens of labels, one query a round",
       MakeAlevs},
      {"dbalevs", "high leverage, different from each other and from the labeled, an equal share per class",
       "batches early in a campaign; needs a kernel in [0, 1] such as rbf", MakeDbalevs},
      {"quire", "informative and representative at once, by the learner's own kernel",
       "only to compare: regret 7.3% on 24 sets, behind random on 6; uses the classifier's kernel", MakeQuire},
      {"ted", "the design that best predicts the whole pool; looks at no label's value",
       "a first batch of a small pool (regret 3.2%); cost grows with the square of the pool", MakeTed},
      {"nearopt", "splits 300 sampled linear classifiers as evenly as it can",
       "batches on data that a linear classifier separates well", MakeNearOpt},
      {"lev-on-all", "the highest leverage over the whole pool, without classes",
       "a baseline for alevs; the order does not depend on the labels' values", MakeLevOnAll},
      {"top-lev", "lev-on-all by the paper's name for batches", "a baseline for dbalevs", MakeTopLev},
      {"random", "uniform over what is unlabeled", "the baseline, and if an unbiased sample of the pool is wanted",
       MakeRandom},
      {"most-confident", "what the classifier is most sure of: the wrong way round",
       "only to compare with the published batch results, whose \"uncertainty\" did this", MakeMostConfident},
  };
  return *strategies;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name) {
  for (const StrategyEntry& entry : Strategies()) {
    if (entry.name == name) return entry.make();
  }
  const auto append_name = [](std::string* out, const StrategyEntry& entry) { absl::StrAppend(out, entry.name); };
  return absl::InvalidArgumentError(absl::StrCat("unknown strategy '", std::string(name),
                                                 "'; choose one of: ", absl::StrJoin(Strategies(), ", ", append_name)));
}

}  // namespace fulcrum::select
