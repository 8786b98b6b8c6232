// Leverage, coverage and uncertainty in one: the paper's future work. A question is worth asking when its answer says
// much about examples whose class is still in doubt (doubt_reduction.h: coverage where the doubts are), and when the
// example shapes the kernel matrix of the pool (leverage over the whole pool, which no wrong prediction can mislead):
//   s = 0.8 rank(reduction of doubt) + 0.2 rank(leverage),  ranks over the candidates, from 0 to 1.
// There is no schedule: early on everything is in doubt and s is as strong as an experimental design, later the doubts
// are where the classes meet and s does what uncertainty does, one example a region. Doubts come from a Gaussian
// process with the classifier's kernel and noise 0.1, classes weighed alike. While a class lags, class_lag.h says who
// may be asked.
//
// A batch is chosen one by one: each pick counts as labeled, with the class it most likely has, in the variances and in
// the lag, so the next one is about something else. Of more than 4,096 candidates only those with the best scores, as
// many of each likely class, are looked at again after a pick.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeHybrid();

}  // namespace fulcrum::select
