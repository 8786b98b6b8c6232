// Labels by id from a table of its own, where there is no pool to compare the ids with: answers of an oracle, labels to
// be imported.
//
// A table with a column `label` and, unless its rows are named by their numbers from 0, a column `id`: a label file, or
// a pool whose labels are known. Other columns are not looked at.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::ingest {

struct KnownLabel {
  std::string id;
  std::string label;
};

/// In the order of the file, rows without a label left out, an id with the same label twice given once. DataLoss
/// (NotFound for a missing file) for an id without a name or with two labels, and where there is no column `label`.
absl::StatusOr<std::vector<KnownLabel>> LoadKnownLabels(const std::string& path);

}  // namespace fulcrum::ingest
