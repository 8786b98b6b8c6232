// QUIRE (Huang, Jin, Zhou 2010) in closed form. METHOD section 2: with L = (K + lambda I)^-1, the criterion
//   L_ss - L_sa L_aa^-1 L_as + 2 |(L_sl - L_sa L_aa^-1 L_al) y_l|  equals  (1 + 2 |f_s|) / B_ss,
// f and B the mean and the variance (noise included) of the Gaussian process given the labeled. K is the
// classifier's kernel and lambda is 1. Picks carry the inverse, B_ss / (1 + 2 |f_s|), largest first.
// C > 2 classes: the sum of the C one-against-rest criteria, (C + 2 sum_c |f_s^c|) / B_ss.
// QUIRE is defined for one query. In a batch B is updated by rank one as if the pick were labeled, and f, which
// would need its label, is kept. Any number of rows: one pass scores them all, a shortlist of the best is kept up to
// date from pick to pick, and there is another pass only where a shortlist no longer has the best of all.
#pragma once

#include <cstddef>
#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeQuire();
/// So many candidates at a time are kept up to date; the batch does not depend on it.
std::unique_ptr<Strategy> MakeQuireWithShortlist(std::size_t shortlist);

}  // namespace fulcrum::select
