// A pool's features as the kernels read them: where ingest and the numerical stages meet.
#pragma once

#include <memory>

#include "stages/ingest/pool_features.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

/// Dense or sparse, as the pool has them.
std::unique_ptr<kernel::Features> MakeFeatures(ingest::PoolFeatures features);

}  // namespace fulcrum::pipeline
