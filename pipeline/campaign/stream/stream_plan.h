// What a campaign's specification says about rows that arrive one at a time. A plain value; stateless.
#pragma once

#include <functional>
#include <string>

#include "stages/stream/stream_selector.h"

namespace fulcrum::v1 {
class StreamSpec;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

struct StreamPlan {
  stream::StreamOptions options = {};
  double keep_share = 0;  ///< of the rows that are not taken: so many join the pool
};

/// With every default filled in. `problem` is called with the path and the description of all that is impossible.
StreamPlan PlanStream(const v1::StreamSpec& spec,
                      const std::function<void(const std::string& path, const std::string& what)>& problem);

}  // namespace fulcrum::pipeline
