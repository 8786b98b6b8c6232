#include "stages/ingest/text_table_writer.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/column_roles.h"
#include "stages/ingest/csv_text.h"
#include "stages/ingest/feature_block.h"
#include "stages/ingest/list_column.h"
#include "stages/ingest/number_array.h"
#include "stages/ingest/text_column.h"

namespace fulcrum::ingest {
namespace {

constexpr char kWriting[] = "cannot write the table";
constexpr std::size_t kBufferBytes = 1 << 20;

/// Text that goes out a large piece at a time.
class TextBuffer {
 public:
  explicit TextBuffer(arrow::io::OutputStream& stream) : stream_(stream) {}
  std::string& text() { return text_; }
  absl::Status FlushIfFull() { return text_.size() < kBufferBytes ? absl::OkStatus() : Flush(); }
  absl::Status Flush() {
    const absl::Status status =
        FromArrow(stream_.Write(text_.data(), static_cast<std::int64_t>(text_.size())), kWriting);
    text_.clear();
    return status;
  }

 private:
  arrow::io::OutputStream& stream_;
  std::string text_;
};

template <typename T>
void AppendShortest(T value, std::string& text) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  text.append(buffer, end);
}

/// Numbers and text; what it is must have been checked.
void AppendCell(const arrow::Array& array, std::int64_t row, std::string& text) {
  if (array.IsNull(row)) return;
  VisitNumberArray(array, [&](const auto& typed) {
    using ArrayType = std::decay_t<decltype(typed)>;
    if constexpr (std::is_base_of_v<arrow::BinaryArray, ArrayType> ||
                  std::is_base_of_v<arrow::LargeBinaryArray, ArrayType>) {
      const auto value = typed.GetView(row);
      AppendCsvField({value.data(), value.size()}, text);
    } else {
      AppendShortest(NumberFrom<ArrayType>(typed.Value(row)), text);
    }
  });
}

/// One column of the table, as many of the CSV.
struct CsvColumn {
  int column = 0;
  std::size_t width = 0;  // of a list; 0 for a plain one
  bool as_text = false;   // truth values, times, dictionaries
};

class CsvTableWriter final : public TableWriter {
 public:
  CsvTableWriter(std::vector<CsvColumn> columns, std::string header, arrow::io::OutputStream& stream)
      : columns_(std::move(columns)), buffer_(stream) {
    buffer_.text() = std::move(header);
  }

  absl::Status Write(const arrow::RecordBatch& batch) override {
    std::vector<std::vector<std::string>> texts(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].as_text) continue;
      FULCRUM_RETURN_IF_ERROR(AppendTextColumn(*batch.column(columns_[i].column), texts[i]));
    }
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (i > 0) buffer_.text().push_back(',');
        if (columns_[i].as_text) {
          AppendCsvField(texts[i][static_cast<std::size_t>(row)], buffer_.text());
        } else {
          FULCRUM_RETURN_IF_ERROR(AppendColumn(columns_[i], *batch.column(columns_[i].column), row));
        }
      }
      buffer_.text().push_back('\n');
      FULCRUM_RETURN_IF_ERROR(buffer_.FlushIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override { return buffer_.Flush(); }

 private:
  absl::Status AppendColumn(const CsvColumn& column, const arrow::Array& array, std::int64_t row) {
    if (column.width == 0) {
      AppendCell(array, row, buffer_.text());
      return absl::OkStatus();
    }
    const ListColumn lists(array);
    const bool there = lists.IsThere(row);
    if (there && lists.LengthOf(row) != column.width) {
      return absl::DataLossError(absl::StrCat(kWriting, ": a list has ", lists.LengthOf(row), " values instead of ",
                                              column.width, "; CSV needs as many in every row"));
    }
    for (std::size_t i = 0; i < column.width; ++i) {
      if (i > 0) buffer_.text().push_back(',');
      if (there) AppendCell(lists.elements(), lists.BeginOf(row) + static_cast<std::int64_t>(i), buffer_.text());
    }
    return absl::OkStatus();
  }

  std::vector<CsvColumn> columns_;
  TextBuffer buffer_;
};

class LibsvmTableWriter final : public TableWriter {
 public:
  LibsvmTableWriter(ColumnRoles roles, arrow::io::OutputStream& stream) : roles_(std::move(roles)), buffer_(stream) {}

  absl::Status Write(const arrow::RecordBatch& batch) override {
    std::vector<std::string> labels(static_cast<std::size_t>(batch.num_rows()));
    if (roles_.label >= 0) {
      labels.clear();
      FULCRUM_RETURN_IF_ERROR(AppendTextColumn(*batch.column(roles_.label), labels));
    }
    FULCRUM_ASSIGN_OR_RETURN(const SparseMatrix rows, Decode(batch));
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      if (labels[row].find_first_of(" \t:#") != std::string::npos) {
        return absl::DataLossError(absl::StrCat(kWriting, ": the label '", labels[row],
                                                "' has a space, colon or '#', which LIBSVM's format cannot have"));
      }
      buffer_.text() += labels[row].empty() ? "0" : labels[row];
      for (std::size_t i = 0; i < rows.ColumnsOf(row).size(); ++i) {
        absl::StrAppend(&buffer_.text(), " ", rows.ColumnsOf(row)[i] + 1, ":");
        AppendShortest(rows.ValuesOf(row)[i], buffer_.text());
      }
      buffer_.text().push_back('\n');
      FULCRUM_RETURN_IF_ERROR(buffer_.FlushIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override { return buffer_.Flush(); }

 private:
  absl::StatusOr<SparseMatrix> Decode(const arrow::RecordBatch& batch) {
    SparseMatrix rows;
    std::vector<BadCell> bad;
    if (roles_.sparse()) {
      bad = DecodeSparse(batch, roles_.parts[0], rows, {});
    } else {
      SettleWidths(batch, roles_);
      Matrix<double> dense(static_cast<std::size_t>(batch.num_rows()), roles_.width());
      bad = DecodeFeatures<double>(batch, roles_.parts, dense.view(), {});
      if (bad.empty()) AppendNonzeros(dense.view(), rows);
    }
    if (bad.empty()) return rows;
    return absl::DataLossError(absl::StrCat(kWriting, ": column '", roles_.parts[bad[0].part].name,
                                            "': ", bad[0].complaint, "; LIBSVM's format has finite numbers only"));
  }

  static void AppendNonzeros(ConstMatrixView dense, SparseMatrix& rows) {
    for (std::size_t row = 0; row < dense.rows(); ++row) {
      for (std::size_t col = 0; col < dense.cols(); ++col) {
        if (dense(row, col) == 0) continue;
        rows.columns.push_back(static_cast<std::int32_t>(col));
        rows.values.push_back(dense(row, col));
      }
      rows.offsets.push_back(rows.values.size());
    }
  }

  ColumnRoles roles_;
  TextBuffer buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableWriter>> MakeCsvWriter(const arrow::Schema& schema,
                                                           arrow::io::OutputStream& stream) {
  std::vector<CsvColumn> columns;
  std::string header;
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    CsvColumn column{i, FixedListLength(*field.type()), false};
    column.as_text = CanBeText(*field.type()) && !IsFeatureType(*field.type());
    const bool writable = column.as_text || IsFeatureType(*field.type()) ||
                          (column.width > 0 && IsNumberType(*ListElementType(*field.type())));
    if (!writable) {
      return absl::InvalidArgumentError(absl::StrCat("the column '", field.name(), "' of type ",
                                                     field.type()->ToString(), " cannot be written as CSV"));
    }
    for (std::size_t k = 0; k < std::max<std::size_t>(column.width, 1); ++k) {
      if (!header.empty()) header.push_back(',');
      AppendCsvField(column.width == 0 ? field.name() : absl::StrCat(field.name(), "[", k, "]"), header);
    }
    columns.push_back(column);
  }
  header.push_back('\n');
  return std::make_unique<CsvTableWriter>(std::move(columns), std::move(header), stream);
}

absl::StatusOr<std::unique_ptr<TableWriter>> MakeLibsvmWriter(const arrow::Schema& schema,
                                                              arrow::io::OutputStream& stream) {
  FULCRUM_ASSIGN_OR_RETURN(ColumnRoles roles, AssignRoles(schema, {}, "the table"));
  return std::make_unique<LibsvmTableWriter>(std::move(roles), stream);
}

}  // namespace fulcrum::ingest
