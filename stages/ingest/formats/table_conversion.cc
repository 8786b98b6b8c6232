#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "arrow/util/utf8.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/formats/table_writer.h"

namespace fulcrum::ingest {
namespace {

/// What becomes of a column.
struct ColumnPlan {
  enum class Kind { kAsIs, kInteger, kNumber, kText, kFixedList };
  Kind kind = Kind::kAsIs;
  std::size_t width = 0;                       // of lists
  std::optional<std::uint64_t> not_utf8 = {};  // the first row of a text column that is not UTF-8
};

struct Plan {
  std::vector<ColumnPlan> columns;
  std::optional<FeaturePart> sparse_to_dense;  // for CSV, which has no lists
  std::size_t sparse_width = 0;
};

absl::string_view TextAt(const arrow::BinaryArray& array, std::int64_t row) {
  const auto text = array.GetView(row);
  return {text.data(), text.size()};
}

/// What a column of text has been so far; empty values are missing ones. `first_row` is that of the array.
void LookAtText(const arrow::BinaryArray& array, std::uint64_t first_row, ColumnPlan& plan) {
  using Kind = ColumnPlan::Kind;
  arrow::util::InitializeUTF8();
  for (std::int64_t row = 0; row < array.length() && !plan.not_utf8; ++row) {
    const absl::string_view text = TextAt(array, row);
    if (!arrow::util::ValidateUTF8({text.data(), text.size()}))
      plan.not_utf8 = first_row + static_cast<std::uint64_t>(row);
    if (plan.kind == Kind::kText) continue;
    std::int64_t integer = 0;
    if (text.empty() ||
        (plan.kind == Kind::kInteger && absl::SimpleAtoi(text, &integer) && absl::StrCat(integer) == text)) {
      continue;
    }
    plan.kind = ParseNumber(text) ? Kind::kNumber : Kind::kText;
  }
}

absl::Status LookAtLists(const arrow::Array& array, const std::string& name, ColumnPlan& plan) {
  const ListColumn lists(array);
  for (std::int64_t row = 0; row < array.length(); ++row) {
    if (!lists.IsThere(row)) continue;
    if (plan.width == 0) plan.width = lists.LengthOf(row);
    if (plan.width == lists.LengthOf(row)) continue;
    return absl::DataLossError(absl::StrCat("column '", name, "' has lists of ", plan.width, " and of ",
                                            lists.LengthOf(row), " values; CSV needs as many in every row"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> StartPlan(const arrow::Schema& schema, TableFormat format, const std::string& path) {
  Plan plan;
  const auto roles = AssignRoles(schema, {}, path);
  if (format == TableFormat::kCsv && roles.ok() && roles->sparse()) plan.sparse_to_dense = roles->parts[0];
  for (const auto& field : schema.fields()) {
    ColumnPlan column;
    if (field->type()->id() == arrow::Type::BINARY) column.kind = ColumnPlan::Kind::kInteger;
    const bool loose_list = ListElementType(*field->type()) != nullptr && FixedListLength(*field->type()) == 0;
    if (format == TableFormat::kCsv && loose_list && !plan.sparse_to_dense) column.kind = ColumnPlan::Kind::kFixedList;
    plan.columns.push_back(column);
  }
  return plan;
}

bool NeedsAPass(const Plan& plan) {
  return plan.sparse_to_dense.has_value() ||
         std::any_of(plan.columns.begin(), plan.columns.end(),
                     [](const ColumnPlan& column) { return column.kind != ColumnPlan::Kind::kAsIs; });
}

absl::Status LookAt(const arrow::RecordBatch& batch, std::uint64_t first_row, Plan& plan) {
  for (int i = 0; i < batch.num_columns(); ++i) {
    ColumnPlan& column = plan.columns[static_cast<std::size_t>(i)];
    if (column.kind == ColumnPlan::Kind::kFixedList) {
      FULCRUM_RETURN_IF_ERROR(LookAtLists(*batch.column(i), batch.column_name(i), column));
    } else if (column.kind != ColumnPlan::Kind::kAsIs) {
      LookAtText(static_cast<const arrow::BinaryArray&>(*batch.column(i)), first_row, column);
    }
  }
  if (!plan.sparse_to_dense) return absl::OkStatus();
  SparseMatrix rows;
  const auto bad = DecodeSparse(batch, *plan.sparse_to_dense, rows, {});
  if (!bad.empty()) return absl::DataLossError(absl::StrCat("column 'values': ", bad[0].complaint));
  plan.sparse_width = std::max(plan.sparse_width, rows.cols);
  return absl::OkStatus();
}

/// Text of a CSV file that is not UTF-8 has the wrong encoding; a binary column of a typed format holds bytes.
absl::Status SettleBytes(const TableSource& source, Plan& plan) {
  for (std::size_t i = 0; i < plan.columns.size(); ++i) {
    ColumnPlan& column = plan.columns[i];
    if (!column.not_utf8) continue;
    if (FormatName(source.current_file()) == "CSV") {
      const std::uint64_t rows[] = {*column.not_utf8};
      return absl::DataLossError(absl::StrCat(source.path(), ", ", source.PlacesOfRows(rows)[0], ", column '",
                                              source.column_names()[i],
                                              "': the value is not UTF-8 text; save the file in UTF-8"));
    }
    column.kind = ColumnPlan::Kind::kAsIs;
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(const std::vector<std::string>& sources, TableFormat format, const InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(const auto source, OpenSources(sources, {}, limits));
  FULCRUM_ASSIGN_OR_RETURN(Plan plan, StartPlan(*source->schema(), format, source->path()));
  std::uint64_t rows = 0;
  while (NeedsAPass(plan)) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) break;
    const absl::Status status = LookAt(*batch, rows, plan);
    if (!status.ok()) return absl::Status(status.code(), absl::StrCat(source->path(), ": ", status.message()));
    rows += static_cast<std::uint64_t>(batch->num_rows());
  }
  FULCRUM_RETURN_IF_ERROR(SettleBytes(*source, plan));
  return plan;
}

template <typename Builder, typename Parse>
arrow::Result<std::shared_ptr<arrow::Array>> ParseColumn(const arrow::BinaryArray& array, arrow::MemoryPool* memory,
                                                         const Parse& parse) {
  Builder builder(memory);
  for (std::int64_t row = 0; row < array.length(); ++row) {
    const absl::string_view text = TextAt(array, row);
    ARROW_RETURN_NOT_OK(text.empty() ? builder.AppendNull() : builder.Append(parse(text)));
  }
  return builder.Finish();
}

/// The same bytes as text, which the plan has found to be UTF-8.
arrow::Result<std::shared_ptr<arrow::Array>> ToText(const arrow::Array& array) {
  return array.View(arrow::utf8());
}

std::shared_ptr<arrow::DataType> FixedListOf(const arrow::DataType& list, std::size_t width) {
  return arrow::fixed_size_list(static_cast<const arrow::BaseListType&>(list).value_type(),
                                static_cast<std::int32_t>(width));
}

/// Lists that are all as long as the plan says, nulls filled in.
arrow::Result<std::shared_ptr<arrow::Array>> ToFixedLists(const arrow::Array& array, std::size_t width,
                                                          arrow::MemoryPool* memory) {
  const ListColumn lists(array);
  std::unique_ptr<arrow::ArrayBuilder> builder;
  ARROW_RETURN_NOT_OK(arrow::MakeBuilder(memory, FixedListOf(*array.type(), width), &builder));
  auto& fixed = static_cast<arrow::FixedSizeListBuilder&>(*builder);
  for (std::int64_t row = 0; row < array.length(); ++row) {
    if (!lists.IsThere(row)) {
      ARROW_RETURN_NOT_OK(fixed.AppendNull());
      continue;
    }
    ARROW_RETURN_NOT_OK(fixed.Append());
    ARROW_RETURN_NOT_OK(fixed.value_builder()->AppendArraySlice(*lists.elements().data(), lists.BeginOf(row),
                                                                static_cast<std::int64_t>(width)));
  }
  return fixed.Finish();
}

arrow::Result<std::shared_ptr<arrow::Array>> ToDenseLists(const arrow::RecordBatch& batch, const Plan& plan,
                                                          arrow::MemoryPool* memory) {
  SparseMatrix rows;
  DecodeSparse(batch, *plan.sparse_to_dense, rows, {});
  const auto count = static_cast<std::int64_t>(rows.rows() * plan.sparse_width);
  // One feature with a large number makes every row as wide as that.
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(count * static_cast<std::int64_t>(sizeof(double)), memory));
  auto* const values = reinterpret_cast<double*>(buffer->mutable_data());
  std::fill(values, values + count, 0.0);
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    for (std::size_t i = 0; i < rows.ColumnsOf(row).size(); ++i) {
      values[row * plan.sparse_width + static_cast<std::size_t>(rows.ColumnsOf(row)[i])] = rows.ValuesOf(row)[i];
    }
  }
  const auto elements = std::make_shared<arrow::DoubleArray>(count, std::move(buffer));
  return std::make_shared<arrow::FixedSizeListArray>(
      arrow::fixed_size_list(arrow::float64(), static_cast<std::int32_t>(plan.sparse_width)), batch.num_rows(),
      elements);
}

arrow::Result<std::shared_ptr<arrow::Array>> ConvertColumn(const std::shared_ptr<arrow::Array>& array,
                                                           const ColumnPlan& plan, arrow::MemoryPool* memory) {
  const auto integer = [](absl::string_view text) {
    std::int64_t value = 0;
    (void)absl::SimpleAtoi(text, &value);
    return value;
  };
  const auto number = [](absl::string_view text) { return ParseNumber(text).value_or(0); };
  switch (plan.kind) {
    case ColumnPlan::Kind::kAsIs:
      return array;
    case ColumnPlan::Kind::kInteger:
      return ParseColumn<arrow::Int64Builder>(static_cast<const arrow::BinaryArray&>(*array), memory, integer);
    case ColumnPlan::Kind::kNumber:
      return ParseColumn<arrow::DoubleBuilder>(static_cast<const arrow::BinaryArray&>(*array), memory, number);
    case ColumnPlan::Kind::kText:
      return ToText(*array);
    default:
      return ToFixedLists(*array, plan.width, memory);
  }
}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> ConvertBatch(const arrow::RecordBatch& batch, const Plan& plan,
                                                                 arrow::MemoryPool* memory) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    const bool dropped =
        plan.sparse_to_dense && (i == plan.sparse_to_dense->column || i == plan.sparse_to_dense->values_column);
    if (dropped) continue;
    FULCRUM_ASSIGN_OR_RETURN(
        columns.emplace_back(),
        FromArrow(ConvertColumn(batch.column(i), plan.columns[static_cast<std::size_t>(i)], memory),
                  absl::StrCat("column '", batch.column_name(i), "'")));
    fields.push_back(arrow::field(batch.column_name(i), columns.back()->type()));
  }
  if (plan.sparse_to_dense) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), FromArrow(ToDenseLists(batch, plan, memory), "sparse features"));
    fields.push_back(arrow::field("f", columns.back()->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), batch.num_rows(), std::move(columns));
}

}  // namespace

absl::StatusOr<std::int64_t> ConvertTable(const std::vector<std::string>& sources, const std::string& path,
                                          const InputLimits& given) {
  InputLimits limits = given;
  // The other half is for rows as text, which Arrow does not allocate.
  limits.max_memory_bytes = given.max_memory_bytes / 2;
  FULCRUM_ASSIGN_OR_RETURN(const TableFormat format, FormatOf(path));
  FULCRUM_ASSIGN_OR_RETURN(const Plan plan, MakePlan(sources, format, limits));
  FULCRUM_ASSIGN_OR_RETURN(const auto source, OpenSources(sources, {}, limits));
  FULCRUM_ASSIGN_OR_RETURN(const auto file, TableFile::Create(path));
  arrow::MemoryPool* const memory = CappedPool(limits.max_memory_bytes);
  std::unique_ptr<TableWriter> writer;
  std::int64_t rows = 0;
  const auto write = [&](const arrow::RecordBatch& batch) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto converted, ConvertBatch(batch, plan, memory));
    if (writer == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(writer,
                               MakeTableWriter(format, converted->schema(), file->stream(), limits.max_memory_bytes));
    }
    return writer->Write(*converted);
  };
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("cannot convert '", source->current_file(), "' to '", path,
                                                    "': ", status.message()));
  };
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) break;
    if (const absl::Status status = write(*batch); !status.ok()) return named(status);
    rows += batch->num_rows();
  }
  if (writer == nullptr) return absl::DataLossError(absl::StrCat(source->path(), " has no rows; nothing to convert"));
  if (const absl::Status status = writer->Finish(); !status.ok()) return named(status);
  FULCRUM_RETURN_IF_ERROR(file->Commit());
  return rows;
}

}  // namespace fulcrum::ingest
