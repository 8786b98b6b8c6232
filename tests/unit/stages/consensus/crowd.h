// Simulated annotators for tests: items with known classes, and votes of annotators of known accuracy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/consensus/consensus.h"

namespace fulcrum::testing {

struct Crowd {
  std::size_t classes = 2;
  std::vector<ClassIndex> truth = {};
  std::vector<consensus::Vote> votes = {};

  consensus::ConsensusProblem Problem(std::size_t annotators) const {
    return {.items = truth.size(), .annotators = annotators, .classes = classes, .votes = votes};
  }
};

/// `votes` different annotators answer each of the items; a wrong answer is any other class.
Crowd MakeCrowd(std::span<const double> accuracies, std::size_t items, std::size_t votes, std::size_t classes,
                std::uint64_t seed);

/// Share of items whose most probable class is right.
double ShareRight(const Crowd& crowd, const consensus::Consensus& consensus);
/// The same for the most frequent answer; of equally frequent ones the first class.
double MajorityShareRight(const Crowd& crowd);

}  // namespace fulcrum::testing
