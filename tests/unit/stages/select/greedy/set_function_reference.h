// The set function of DBALEVS and its maximisers straight from their definitions, as slow as they come.
#pragma once

#include <vector>

#include "stages/select/greedy/submodular_greedy.h"

namespace fulcrum::select {

/// F of the positions, each unordered pair once, with the given M.
double ReferenceValue(const GreedyProblem& problem, const std::vector<std::size_t>& set, std::size_t capacity);

/// b times the argmax over all gains, each gain summed anew.
std::vector<std::size_t> ReferenceGreedy(const GreedyProblem& problem);

/// The largest F of the labeled with any batch of that size.
double ReferenceBest(const GreedyProblem& problem);

}  // namespace fulcrum::select
