#include "stages/select/strategy_registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {

const std::vector<StrategyEntry>& Strategies() {
  static const auto* const strategies = new std::vector<StrategyEntry>{
      {"hybrid", "what says most about examples still in doubt, with a share of leverage; classes kept even",
       "when in doubt: one query or a batch, with any kernel; docs/paper.md has how it compares", MakeHybrid},
      {"alevs", "the highest leverage within the predicted classes", "the first tens of labels, one query a round",
       MakeAlevs},
      {"dbalevs", "high leverage, different from each other and from the labeled, an equal share a class",
       "batches early in a campaign; needs a kernel in [0, 1] such as rbf", MakeDbalevs},
      {"uncertainty", "what the classifier is least sure of",
       "late in a campaign, when the classifier is already good; batches may repeat themselves", MakeUncertainty},
      {"quire", "informative and representative at once, by the learner's own kernel",
       "one query per round, clustered data; ignores the leverage kernel, uses the classifier's", MakeQuire},
      {"ted", "the design that best predicts the whole pool; looks at no label's value",
       "a first batch before any classifier is of use; cost grows with the square of the pool", MakeTed},
      {"nearopt", "splits 300 sampled linear classifiers as evenly as it can",
       "batches on data that a linear classifier separates well", MakeNearOpt},
      {"lev-on-all", "the highest leverage over the whole pool, without classes",
       "a baseline for alevs; the order does not depend on the labels' values", MakeLevOnAll},
      {"top-lev", "lev-on-all by the paper's name for batches", "a baseline for dbalevs", MakeTopLev},
      {"random", "uniform over what is unlabeled", "the baseline, and where an unbiased sample of the pool is wanted",
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
