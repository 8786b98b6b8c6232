#include "pipeline/campaign/stream/offered_rows_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_writer.h"

namespace fulcrum::pipeline {
namespace {

/// A name that no feature has.
std::string FreeName(std::string name, const std::vector<std::string>& features) {
  while (std::ranges::find(features, name) != features.end()) name.push_back('_');
  return name;
}

template <typename Builder, typename ValueOf>
arrow::Result<std::shared_ptr<arrow::Array>> ColumnOf(const std::vector<const OfferedRow*>& rows, ValueOf value_of) {
  Builder builder;
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<std::int64_t>(rows.size())));
  for (const OfferedRow* const row : rows) ARROW_RETURN_NOT_OK(builder.Append(value_of(*row)));
  return builder.Finish();
}

arrow::Result<std::shared_ptr<arrow::Table>> TableOf(const ingest::ColumnOptions& names,
                                                     const std::vector<std::string>& features,
                                                     const std::vector<const OfferedRow*>& rows) {
  std::vector<std::shared_ptr<arrow::Field>> fields = {arrow::field(names.id, arrow::utf8())};
  std::vector<std::shared_ptr<arrow::Array>> columns(1);
  ARROW_ASSIGN_OR_RAISE(columns[0], (ColumnOf<arrow::StringBuilder>(rows, [](const auto& row) { return row.id; })));
  if (!names.payload.empty()) {
    fields.push_back(arrow::field(names.payload, arrow::binary()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                          (ColumnOf<arrow::BinaryBuilder>(rows, [](const auto& row) { return row.payload; })));
  }
  if (!names.cost.empty()) {
    fields.push_back(arrow::field(names.cost, arrow::float64()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                          (ColumnOf<arrow::DoubleBuilder>(rows, [](const auto& row) { return row.cost; })));
  }
  for (std::size_t feature = 0; feature < features.size(); ++feature) {
    fields.push_back(arrow::field(features[feature], arrow::float32()));
    ARROW_ASSIGN_OR_RAISE(
        columns.emplace_back(),
        (ColumnOf<arrow::FloatBuilder>(rows, [feature](const auto& row) { return row.features[feature]; })));
  }
  return arrow::Table::Make(arrow::schema(std::move(fields)), columns);
}

}  // namespace

absl::StatusOr<OfferedTable> MakeOfferedTable(const CampaignPool& pool, const std::vector<const OfferedRow*>& rows) {
  OfferedTable made{.columns = pool.columns()};
  made.columns.ignored.clear();
  const std::vector<std::string>& features = pool.feature_names();
  if (made.columns.id.empty()) made.columns.id = "id";
  const bool payloads = std::ranges::any_of(rows, [](const auto* row) { return !row->payload.empty(); });
  if (payloads && made.columns.payload.empty()) made.columns.payload = FreeName("payload", features);
  const bool costs = std::ranges::any_of(rows, [](const auto* row) { return row->cost != 0; });
  if (costs && made.columns.cost.empty()) made.columns.cost = FreeName("cost", features);
  // The column of labels, which rows of a stream do not have.
  made.columns.roles_may_be_missing = true;
  FULCRUM_ASSIGN_OR_RETURN(const auto table,
                           ingest::FromArrow(TableOf(made.columns, features, rows), "preparing rows of a stream"));
  FULCRUM_ASSIGN_OR_RETURN(made.bytes, ingest::SerializeTable(ingest::TableFormat::kIpcStream, *table));
  return made;
}

}  // namespace fulcrum::pipeline
