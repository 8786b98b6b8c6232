// Files that say which class rows belong to: labels that people gave, or predictions of the user's own model.
//
// A table with the columns `id` and `label`; others are ignored.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/ingest/row_ids.h"

namespace fulcrum::ingest {

struct RowLabel {
  RowIndex row = 0;
  std::string label;
};

/// The labels in the file, ascending by row, one a row. A header without rows gives none. Errors: an id that
/// the pool does not have, an id with two different labels (the same one twice is fine), an empty label,
/// missing columns; each with file, line, value and what to do.
absl::StatusOr<std::vector<RowLabel>> LoadLabelFile(const std::string& path, const RowIds& ids);

}  // namespace fulcrum::ingest
