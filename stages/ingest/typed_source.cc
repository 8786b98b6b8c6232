#include "stages/ingest/typed_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/no_exceptions.h"
#include "stages/ingest/schema_checks.h"

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

}  // namespace fulcrum::ingest
