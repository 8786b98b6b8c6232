// The b highest leverage scores over the whole pool: lev-on-all under the name that the paper uses for batches.
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeTopLev() {
  return MakeLevOnAll();
}

}  // namespace fulcrum::select
