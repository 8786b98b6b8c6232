#include "tests/unit/stages/consensus/crowd.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/core/random.h"

namespace fulcrum::testing {

Crowd MakeCrowd(std::span<const double> accuracies, std::size_t items, std::size_t votes, std::size_t classes,
                std::uint64_t seed) {
  Random random(seed);
  Crowd crowd{.classes = classes};
  std::vector<std::uint32_t> annotators(accuracies.size());
  std::iota(annotators.begin(), annotators.end(), 0u);
  for (std::size_t i = 0; i < items; ++i) {
    const auto truth = static_cast<ClassIndex>(random.Below(classes));
    crowd.truth.push_back(truth);
    for (std::size_t k = 0; k < votes; ++k) {
      std::swap(annotators[k], annotators[k + random.Below(annotators.size() - k)]);
      ClassIndex value = truth;
      if (random.Uniform() >= accuracies[annotators[k]]) {
        value = static_cast<ClassIndex>((static_cast<std::size_t>(truth) + 1 + random.Below(classes - 1)) % classes);
      }
      crowd.votes.push_back({static_cast<std::uint32_t>(i), annotators[k], value});
    }
  }
  return crowd;
}

double ShareRight(const Crowd& crowd, const consensus::Consensus& consensus) {
  double right = 0;
  for (std::size_t i = 0; i < crowd.truth.size(); ++i) {
    const std::span<const double> row = consensus.posterior.row(i);
    right += std::ranges::max_element(row) - row.begin() == crowd.truth[i] ? 1 : 0;
  }
  return right / static_cast<double>(crowd.truth.size());
}

double MajorityShareRight(const Crowd& crowd) {
  std::vector<std::vector<int>> counts(crowd.truth.size(), std::vector<int>(crowd.classes, 0));
  for (const consensus::Vote& vote : crowd.votes) ++counts[vote.item][static_cast<std::size_t>(vote.value)];
  double right = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    right += std::ranges::max_element(counts[i]) - counts[i].begin() == crowd.truth[i] ? 1 : 0;
  }
  return right / static_cast<double>(counts.size());
}

}  // namespace fulcrum::testing
