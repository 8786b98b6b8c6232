#include "stages/ingest/schema_checks.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "arrow/type.h"

namespace fulcrum::ingest {

absl::Status CheckNamesDiffer(const arrow::Schema& schema, const std::string& path) {
  absl::flat_hash_set<std::string> seen;
  for (int i = 0; i < schema.num_fields(); ++i) {
    const std::string& name = schema.field(i)->name();
    if (name.empty()) {
      return absl::DataLossError(absl::StrCat(path, ": column ", i + 1, " has no name; give it one or remove it"));
    }
    if (!seen.insert(name).second) {
      return absl::DataLossError(
          absl::StrCat(path, ": the column '", name, "' comes twice; rename or remove one of them"));
    }
  }
  return absl::OkStatus();
}

std::vector<int> ChooseFields(const arrow::Schema& schema, const std::vector<std::string>& names) {
  const absl::flat_hash_set<std::string> wanted(names.begin(), names.end());
  std::vector<int> chosen;
  for (int i = 0; i < schema.num_fields(); ++i) {
    if (names.empty() || wanted.contains(schema.field(i)->name())) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace fulcrum::ingest
