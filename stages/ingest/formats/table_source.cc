#include "stages/ingest/formats/table_source.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"

namespace fulcrum::ingest {

TypedSource::TypedSource(std::string path, const InputLimits& limits, const char* format)
    : path_(std::move(path)), limits_(limits), schema_(arrow::schema(arrow::FieldVector{})) {
  doing_ = absl::StrCat("cannot read '", path_, "' as ", format);
}

absl::Status TypedSource::Open(const TableRequest& request) {
  return WithoutExceptions(doing_, [&] { return OpenOrThrow(request); });
}

absl::StatusOr<std::vector<int>> TypedSource::ChooseColumns(const arrow::Schema& whole, const TableRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckNamesDiffer(whole, path_));
  all_names_ = whole.field_names();
  std::vector<int> chosen = ChooseFields(whole, request.columns);
  arrow::FieldVector fields;
  for (int index : chosen) fields.push_back(whole.field(index));
  schema_ = arrow::schema(std::move(fields));
  names_ = schema_->field_names();
  return chosen;
}

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
