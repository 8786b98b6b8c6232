// Where exported labels go: CSV as they come, or Parquet. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::v1 {
class ExportedLabel;
}  // namespace fulcrum::v1

namespace fulcrum::pipeline {

class LabelExport {
 public:
  virtual ~LabelExport() = default;
  virtual absl::Status Add(const v1::ExportedLabel& label) = 0;
  /// Puts the file in its place; without it nothing appears.
  virtual absl::Status Finish() = 0;
};

/// By the ending of the path: .parquet, else CSV, gzipped where it ends in .gz; "-" is standard output. Columns:
/// sequence, id, label, annotator, time, round, lease_id, cost, kind; `id` and `label` are what `fulcrum select
/// --labels` reads.
absl::StatusOr<std::unique_ptr<LabelExport>> OpenLabelExport(const std::string& path);

}  // namespace fulcrum::pipeline
