// Transductive experimental design (Yu, Bi, Tresp 2006), sequential. METHOD section 2:
//   take the i that maximises |K(:,i)|^2 / (K(i,i) + mu), then K <- K - K(:,i) K(i,:) / (K(i,i) + mu).
// K is the classifier's kernel over the whole pool: the design is for the learner. The labeled examples are
// deflated first, so rounds of one query and one batch give the same picks; mu is 0.1.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeTed();

}  // namespace fulcrum::select
