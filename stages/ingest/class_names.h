// The classes of a campaign: their names, sorted, and the index each has.
//
// Immutable and thread-safe after construction.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/rows.h"

namespace fulcrum::ingest {

class ClassNames {
 public:
  /// From labels in any order and number: in numeric order where all are numbers, else by their bytes.
  /// DataLoss where two names are the same number written differently ("1" and "1.0").
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

}  // namespace fulcrum::ingest
