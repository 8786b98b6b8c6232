#include "stages/select/strategy_registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {

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
      {"badge", "doubtful and different: k-means++ on gradients of the classifier", "large batches", MakeBadge},
      {"committee", "what 16 classifiers on resampled labels disagree about most",
       "one query a round, if the classifier's own doubts are not trusted", MakeCommittee},
      {"uncertainty-herding", "coverage weighted by uncertainty, with the published width",
       "to compare with the published method; adaptive-herding finds its width from the pool", MakeUncertaintyHerding},
      {"herding", "what covers most of the pool; looks at no label's value",
       "a first batch: every strategy that needs labels begins with it; later regret 3.0%", MakeHerding},
      {"k-center", "farthest from everything labeled (core-set); looks at no label's value",
       "if every corner of the pool must be seen; it takes outliers first", MakeKCenter},
      {"typical", "the most typical example of each cluster without labels (TypiClust); looks at no label's value",
       "the first tens of labels on clustered data", MakeTypical},
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
  return absl::InvalidArgumentError(absl::StrCat("there is no strategy '", std::string(name), "'. There are: ",
                                                 absl::StrJoin(Strategies(), ", ", append_name), "."));
}

}  // namespace fulcrum::select
