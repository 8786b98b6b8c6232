// QUIRE (Huang, Jin, Zhou 2010) in closed form. METHOD section 2: with L = (K + lambda I)^-1, the criterion
//   L_ss - L_sa L_aa^-1 L_as + 2 |(L_sl - L_sa L_aa^-1 L_al) y_l|  equals  (1 + 2 |f_s|) / B_ss,
// f and B the mean and the variance (noise included) of the Gaussian process given the labeled. K is the
// classifier's kernel and lambda is 1. Picks carry the inverse, B_ss / (1 + 2 |f_s|), largest first.
// C > 2 classes: the sum of the C one-against-rest criteria, (C + 2 sum_c |f_s^c|) / B_ss.
// QUIRE is defined for one query. In a batch B is updated by rank one as if the pick were labeled, and f, which
// would need its label, is kept.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeQuire();

}  // namespace fulcrum::select
