#include "stages/select/top_lev.h"

#include "stages/select/lev_on_all.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeTopLev() {
  return MakeLevOnAll();
}

}  // namespace fulcrum::select
