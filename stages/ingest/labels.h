// Files that say which class rows belong to: labels that people gave, or predictions of the user's own model.
//
// A table with the columns `id` and `label`; others are ignored.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::ingest {

struct RowLabel {
  RowIndex row = 0;
  std::string label;
};

/// The labels in the file, ascending by row, one a row. A header without rows gives none. Errors: an id that
/// the pool does not have, an id with two different labels (the same one twice is fine), an empty label,
/// missing columns; each with file, line, value and what to do.
absl::StatusOr<std::vector<RowLabel>> LoadLabelFile(const std::string& path, const RowIds& ids,
                                                    const InputLimits& limits = {});

// The classes of a campaign: their names, sorted, and the index each has.
//
// Immutable and thread-safe after construction.

class ClassNames {
 public:
  /// From labels in any order and number: in numeric order where all are numbers, else by their bytes.
  /// DataLoss if two names are the same number written differently ("1" and "1.0").
  static absl::StatusOr<ClassNames> FromLabels(std::vector<std::string> labels);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& NameOf(ClassIndex index) const { return names_[static_cast<std::size_t>(index)]; }
  /// kUnlabeled where there is no such class.
  ClassIndex Find(absl::string_view name) const;

 private:
  explicit ClassNames(std::vector<std::string> names);

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, ClassIndex> index_of_name_;
};

// Labels by id from a table of its own, where there is no pool to compare the ids with: answers of an oracle, labels to
// be imported.
//
// A table with a column `label` and, unless its rows are named by their numbers from 0, a column `id`: a label file, or
// a pool whose labels are known. Other columns are not looked at.

struct KnownLabel {
  std::string id;
  std::string label;
};

/// In the order of the file, rows without a label left out, an id with the same label twice given once. DataLoss
/// (NotFound for a missing file) for an id without a name or with two labels, and where there is no column `label`.
absl::StatusOr<std::vector<KnownLabel>> LoadKnownLabels(const std::string& path, const InputLimits& limits = {});

}  // namespace fulcrum::ingest
