#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "stages/consensus/consensus.h"

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
  // Rounding must not leave the share outside.
  return {std::clamp(center - half, 0.0, share), std::clamp(center + half, share, 1.0)};
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

namespace {

/// Number of votes by item and class.
std::vector<double> CountByItem(std::span<const Vote> votes, std::size_t items, std::size_t classes) {
  std::vector<double> counts(items * classes, 0.0);
  for (const Vote& vote : votes) counts[vote.item * classes + static_cast<std::size_t>(vote.value)] += 1;
  return counts;
}

std::optional<double> Kappa(double observed, double expected) {
  if (!(expected < 1)) return std::nullopt;
  return (observed - expected) / (1 - expected);
}

}  // namespace

std::optional<double> CohenKappa(std::span<const ClassIndex> first, std::span<const ClassIndex> second,
                                 std::size_t classes) {
  if (first.empty()) return std::nullopt;
  const auto count = static_cast<double>(first.size());
  std::vector<double> of_first(classes, 0.0), of_second(classes, 0.0);
  double same = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    of_first[static_cast<std::size_t>(first[i])] += 1 / count;
    of_second[static_cast<std::size_t>(second[i])] += 1 / count;
    same += first[i] == second[i] ? 1 / count : 0;
  }
  double expected = 0;
  for (std::size_t c = 0; c < classes; ++c) expected += of_first[c] * of_second[c];
  return Kappa(same, expected);
}

PairwiseKappa MeanCohenKappa(std::span<const Vote> votes, std::size_t annotators, std::size_t classes,
                             std::size_t least_shared) {
  std::vector<Vote> by_item(votes.begin(), votes.end());
  std::stable_sort(by_item.begin(), by_item.end(), [](const Vote& a, const Vote& b) {
    return std::pair(a.item, a.annotator) < std::pair(b.item, b.annotator);
  });
  struct Answers {
    std::vector<ClassIndex> first, second;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Answers> pairs;
  for (std::size_t begin = 0, end = 0; begin < by_item.size(); begin = end) {
    while (end < by_item.size() && by_item[end].item == by_item[begin].item) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t j = i + 1; j < end; ++j) {
        Answers& answers = pairs[{by_item[i].annotator, by_item[j].annotator}];
        answers.first.push_back(by_item[i].value);
        answers.second.push_back(by_item[j].value);
      }
    }
  }
  std::vector<double> sums(annotators + 1, 0.0), weights(annotators + 1, 0.0);  // the last is of all
  for (const auto& [pair, answers] : pairs) {
    if (answers.first.size() < least_shared) continue;
    const auto kappa = CohenKappa(answers.first, answers.second, classes);
    if (!kappa) continue;
    const auto weight = static_cast<double>(answers.first.size());
    for (const std::size_t at : {std::size_t{pair.first}, std::size_t{pair.second}, annotators}) {
      sums[at] += weight * *kappa;
      weights[at] += weight;
    }
  }
  PairwiseKappa result;
  for (std::size_t a = 0; a < annotators; ++a) {
    result.of_annotator.push_back(weights[a] > 0 ? std::optional(sums[a] / weights[a]) : std::nullopt);
  }
  if (weights[annotators] > 0) result.overall = sums[annotators] / weights[annotators];
  return result;
}

std::optional<double> FleissKappa(std::span<const Vote> votes, std::size_t items, std::size_t classes) {
  const std::vector<double> counts = CountByItem(votes, items, classes);
  std::vector<double> shares(classes, 0.0);
  double agreement = 0, total = 0, counted = 0;
  for (std::size_t i = 0; i < items; ++i) {
    double n = 0, same = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      n += counts[i * classes + c];
      same += counts[i * classes + c] * (counts[i * classes + c] - 1);
    }
    if (n < 2) continue;
    agreement += same / (n * (n - 1));
    counted += 1;
    total += n;
    for (std::size_t c = 0; c < classes; ++c) shares[c] += counts[i * classes + c];
  }
  if (counted == 0) return std::nullopt;
  double expected = 0;
  for (const double share : shares) expected += share / total * share / total;
  return Kappa(agreement / counted, expected);
}

std::optional<double> KrippendorffAlpha(std::span<const Vote> votes, std::size_t items, std::size_t classes) {
  const std::vector<double> counts = CountByItem(votes, items, classes);
  std::vector<double> shares(classes, 0.0);
  double same = 0, total = 0;  // of the coincidence matrix: its diagonal and its sum
  for (std::size_t i = 0; i < items; ++i) {
    double n = 0;
    for (std::size_t c = 0; c < classes; ++c) n += counts[i * classes + c];
    if (n < 2) continue;
    total += n;
    for (std::size_t c = 0; c < classes; ++c) {
      const double count = counts[i * classes + c];
      same += count * (count - 1) / (n - 1);
      shares[c] += count;
    }
  }
  if (total < 2) return std::nullopt;
  double expected = 0;
  for (const double share : shares) expected += share * (share - 1);
  expected /= total - 1;
  if (!(expected < total)) return std::nullopt;
  return 1 - (total - same) / (total - expected);
}

std::vector<LabelError> FindLabelErrors(std::span<const ClassIndex> labels, ConstMatrixView probabilities) {
  const std::size_t classes = probabilities.cols();
  std::vector<double> thresholds(classes, 0.0), members(classes, 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kUnlabeled) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    thresholds[label] += probabilities(i, label);
    members[label] += 1;
  }
  for (std::size_t c = 0; c < classes; ++c) thresholds[c] = members[c] > 0 ? thresholds[c] / members[c] : 2;
  std::vector<LabelError> errors;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kUnlabeled) continue;
    ClassIndex best = kUnlabeled;
    for (std::size_t c = 0; c < classes; ++c) {
      const double probability = probabilities(i, c);
      if (probability < thresholds[c]) continue;
      if (best == kUnlabeled || probability > probabilities(i, static_cast<std::size_t>(best))) {
        best = static_cast<ClassIndex>(c);
      }
    }
    if (best == kUnlabeled || best == labels[i]) continue;
    const double margin =
        probabilities(i, static_cast<std::size_t>(best)) - probabilities(i, static_cast<std::size_t>(labels[i]));
    errors.push_back({i, labels[i], best, margin});
  }
  std::stable_sort(errors.begin(), errors.end(),
                   [](const LabelError& a, const LabelError& b) { return a.margin > b.margin; });
  return errors;
}

}  // namespace fulcrum::consensus
