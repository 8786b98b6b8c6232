#include "stages/consensus/annotator_quality.h"

#include <algorithm>
#include <cmath>

namespace fulcrum::consensus {
namespace {

constexpr double kLeastHalf = 10;      // effective votes that a half needs before drift is reported
constexpr double kLeastCertainty = 1;  // of an annotator's items together; with less nothing can be said

/// What is believed of the item's class without this vote, which must not speak for itself.
void BeliefWithout(const AnnotatorModel& model, const Vote& vote, std::span<const double> posterior,
                   std::vector<double>& belief) {
  double sum = 0;
  for (std::size_t c = 0; c < model.classes; ++c) {
    belief[c] = posterior[c] / model.Likelihood(vote.annotator, c, static_cast<std::size_t>(vote.value));
    sum += belief[c];
  }
  for (double& value : belief) value = sum > 0 ? value / sum : 1 / static_cast<double>(model.classes);
}

// With p the belief about an item, an annotator of accuracy a gives answer v with probability
// r_v = a p_v + (1 - a) (1 - p_v) / (C - 1), so that p_v of the answer has the mean a S + (1 - a) (1 - S) / (C - 1)
// with S = sum of p squared. That is linear in a: the sum of p_v - (1 - S) / (C - 1), divided by the sum of what a is
// multiplied with, is an estimate of a without bias.
struct Evidence {
  double agreement = 0;  ///< sum of p_v - (1 - S) / (C - 1)
  double certainty = 0;  ///< sum of (C S - 1) / (C - 1): 1 for a certain item, 0 if nothing is known of it
  double variance = 0;   ///< of the agreement

  double Accuracy() const { return std::clamp(agreement / certainty, 0.0, 1.0); }
  /// Votes on gold items that would say as much.
  double EffectiveVotes() const {
    if (certainty < kLeastCertainty || variance <= 0) return 0;
    const double spread = Away(Accuracy()) * (1 - Away(Accuracy()));
    return spread * certainty * certainty / variance;
  }
  /// Away from 0 and 1, where a variance would be 0.
  static double Away(double share) { return std::clamp(share, 0.05, 0.95); }
  double Variance() const {
    const double effective = EffectiveVotes();
    const double share = (Accuracy() * effective + 1) / (effective + 2);
    return share * (1 - share) / effective;
  }
};

void AddAgreement(std::span<const double> belief, const Vote& vote, Evidence& evidence) {
  const auto classes = static_cast<double>(belief.size());
  double squares = 0;
  for (const double p : belief) squares += p * p;
  evidence.agreement += belief[static_cast<std::size_t>(vote.value)] - (1 - squares) / (classes - 1);
  evidence.certainty += (classes * squares - 1) / (classes - 1);
}

void AddVariance(std::span<const double> belief, double accuracy, Evidence& evidence) {
  const double others = (1 - accuracy) / static_cast<double>(belief.size() - 1);
  double mean = 0, squares = 0;
  for (const double p : belief) {
    const double answer = accuracy * p + others * (1 - p);
    mean += answer * p;
    squares += answer * p * p;
  }
  evidence.variance += std::max(squares - mean * mean, 0.0);
}

}  // namespace

Interval WilsonInterval(double right, double total, double z) {
  if (!(total > 0)) return {};
  const double share = std::clamp(right / total, 0.0, 1.0), z2 = z * z;
  const double center = (share + z2 / (2 * total)) / (1 + z2 / total);
  const double half = z / (1 + z2 / total) * std::sqrt(share * (1 - share) / total + z2 / (4 * total * total));
  return {std::max(center - half, 0.0), std::min(center + half, 1.0)};
}

Interval SureInterval(const AnnotatorQuality& quality) {
  constexpr double kSure = 2.6;
  return WilsonInterval(quality.accuracy * quality.effective_votes, quality.effective_votes, kSure);
}

bool IsSurelyBelow(const AnnotatorQuality& quality, double limit) {
  return SureInterval(quality).high < limit;
}

std::vector<AnnotatorQuality> JudgeAnnotators(const ConsensusProblem& problem, const Consensus& consensus) {
  std::vector<AnnotatorQuality> qualities(problem.annotators);
  std::vector<Evidence> all(problem.annotators), early(problem.annotators), late(problem.annotators);
  std::vector<std::size_t> totals(problem.annotators, 0);
  for (const Vote& vote : problem.votes) ++totals[vote.annotator];
  std::vector<double> belief(problem.classes);
  const auto visit = [&](const auto& add) {
    for (AnnotatorQuality& quality : qualities) quality.votes = 0;
    for (const Vote& vote : problem.votes) {
      const bool gold = !problem.known.empty() && problem.known[vote.item] != kUnlabeled;
      if (gold) {
        std::ranges::fill(belief, 0.0);
        belief[static_cast<std::size_t>(problem.known[vote.item])] = 1;
      } else {
        BeliefWithout(consensus.model, vote, consensus.posterior.row(vote.item), belief);
      }
      const bool first_half = 2 * qualities[vote.annotator].votes++ < totals[vote.annotator];
      add(vote, all[vote.annotator], (first_half ? early : late)[vote.annotator], gold);
    }
  };
  visit([&](const Vote& vote, Evidence& whole, Evidence& half, bool gold) {
    AddAgreement(belief, vote, whole);
    AddAgreement(belief, vote, half);
    if (!gold) return;
    AnnotatorQuality& quality = qualities[vote.annotator];
    ++quality.gold_votes;
    quality.gold_right += problem.known[vote.item] == vote.value ? 1 : 0;
  });
  // The variance depends on the accuracy.
  visit([&](const Vote&, Evidence& whole, Evidence& half, bool) {
    if (whole.certainty < kLeastCertainty) return;
    const double accuracy = Evidence::Away(whole.Accuracy());
    AddVariance(belief, accuracy, whole);
    AddVariance(belief, accuracy, half);
  });
  const std::size_t cells = problem.classes * problem.classes;
  for (std::size_t a = 0; a < qualities.size(); ++a) {
    AnnotatorQuality& quality = qualities[a];
    const auto first = consensus.model.confusion.begin() + static_cast<std::ptrdiff_t>(a * cells);
    quality.confusion.assign(first, first + static_cast<std::ptrdiff_t>(cells));
    quality.effective_votes = std::min(all[a].EffectiveVotes(), static_cast<double>(quality.votes));
    const bool known = quality.effective_votes > 0;
    quality.accuracy = known ? all[a].Accuracy() : consensus.model.accuracy[a];
    quality.interval = WilsonInterval(quality.accuracy * quality.effective_votes, quality.effective_votes);
    if (early[a].EffectiveVotes() < kLeastHalf || late[a].EffectiveVotes() < kLeastHalf) continue;
    quality.recent = late[a].Accuracy();
    quality.drift = late[a].Accuracy() - early[a].Accuracy();
    quality.drift_z = *quality.drift / std::sqrt(early[a].Variance() + late[a].Variance());
  }
  return qualities;
}

}  // namespace fulcrum::consensus
