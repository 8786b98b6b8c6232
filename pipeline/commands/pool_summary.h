// What there is to know about an imported pool, for `fulcrum inspect`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/pool/feature_statistics.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {

struct PoolSummary {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  bool sparse = false;
  std::int64_t nonzeros = 0;    ///< of a sparse pool
  std::int64_t duplicates = 0;  ///< rows whose features an earlier row has too
  std::map<std::string, std::int64_t> label_counts = {};
  std::int64_t missing_labels = 0;
  std::int64_t missing_costs = 0;
  std::int64_t missing_payloads = 0;
  std::int64_t payload_bytes = 0;
  double cost_sum = 0;
  std::int64_t file_bytes = 0;
  storage::FeatureStatistics statistics = {};
};

/// Reads every row once.
absl::StatusOr<PoolSummary> SummarizePool(const storage::MappedPool& pool);

/// For people, and for programs.
std::string SummaryText(const storage::MappedPool& pool, const PoolSummary& summary, std::size_t most_features);
std::string SummaryJson(const storage::MappedPool& pool, const PoolSummary& summary);

}  // namespace fulcrum::pipeline
