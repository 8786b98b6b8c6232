// Carries the multipliers of one training over to the next, when labels were added, changed or withdrawn between.
//
// An example that stayed keeps its multiplier and its kernel product, less what those that left contributed to it;
// a newcomer starts at zero with a product of its own. So the gradient costs O(changed * labels) instead of
// O(support vectors * labels). Pure functions, thread-safe.
#pragma once

#include <vector>

#include "stages/classify/pair_problem.h"
#include "stages/classify/smo_solver.h"

namespace fulcrum::classify {

struct WarmStart {
  std::vector<double> alpha;
  std::vector<double> products;  ///< empty: cheaper or safer for the solver to compute them from alpha
  SmoStart View() const { return {alpha, products}; }
};

/// `previous` is the same pair as it was solved last; `next` is not solved yet. `gram` is the kernel of the rows
/// labeled now; rows that are no longer in it are fetched from its features.
WarmStart MakeWarmStart(const PairProblem& previous, const PairProblem& next, const kernel::RowSetKernel& gram);

}  // namespace fulcrum::classify
