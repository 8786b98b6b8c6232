#include "pipeline/kernel_features.h"

#include <utility>

#include "stages/kernel/sparse_features.h"

namespace fulcrum::pipeline {

std::unique_ptr<kernel::Features> MakeFeatures(ingest::PoolFeatures features) {
  if (features.is_sparse()) return std::make_unique<kernel::SparseFeatures>(std::move(features.sparse()));
  return std::make_unique<kernel::DenseFeatures>(std::move(features.dense()));
}

}  // namespace fulcrum::pipeline
