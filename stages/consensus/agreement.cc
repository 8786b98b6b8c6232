#include "stages/consensus/agreement.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fulcrum::consensus {
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

}  // namespace fulcrum::consensus
