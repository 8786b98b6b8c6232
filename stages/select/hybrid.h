// Leverage and coverage early, uncertainty late: the paper's future work. One score a candidate from three ranks
// over the unlabeled, each scaled to [0, 1], ties averaged:
//   leverage     scaled by m/k inside the predicted class, as in ALEVS
//   coverage     posterior variance k(x,x) - k_l' (K_ll + 0.1 I)^-1 k_l, k the classifier's kernel
//   uncertainty  1 - p(y*|x)
//   s = w (3/4 leverage + 1/4 coverage) + (1 - w) uncertainty,  w = 1 / (1 + (t / 30)^2),  t the queries so far.
// The square keeps uncertainty out while there are too few labels to fit probabilities to, and lets it rule later.
//
// One query: while a class is two labels or more behind another, the largest s among the candidates that are likely its
// own; else the largest s of all. (DBALEVS gives what is left over of a batch to the class with the fewest labels; this
// is the same with a batch of one.) An SVM on few labels predicts the larger class everywhere, so "likely" is not asked
// of it but of a kernel ridge regression with the classes weighed alike: the posterior mean with targets n/2n_c and
// -n/2(n - n_c).
// A batch: s takes the place of l in the set function of DBALEVS.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeHybrid();

}  // namespace fulcrum::select
