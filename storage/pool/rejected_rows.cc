#include "storage/pool/rejected_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/table.h"
#include "parquet/arrow/writer.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/no_exceptions.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kRowsPerGroup = 16384;
constexpr std::size_t kMostExamples = 5;

std::shared_ptr<arrow::Schema> RejectedSchema() {
  return arrow::schema({arrow::field("source", arrow::utf8(), false), arrow::field("id", arrow::utf8()),
                        arrow::field("column", arrow::utf8(), false), arrow::field("reason", arrow::utf8(), false)});
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const std::vector<RejectedRow>& rows,
                                                     const std::vector<std::string>& places) {
  arrow::StringBuilder sources, ids, columns, reasons;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ARROW_RETURN_NOT_OK(sources.Append(places[i]));
    ARROW_RETURN_NOT_OK(rows[i].id.empty() ? ids.AppendNull() : ids.Append(rows[i].id));
    ARROW_RETURN_NOT_OK(columns.Append(rows[i].column));
    ARROW_RETURN_NOT_OK(reasons.Append(rows[i].reason));
  }
  arrow::ArrayVector arrays(4);
  ARROW_ASSIGN_OR_RAISE(arrays[0], sources.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[1], ids.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[2], columns.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[3], reasons.Finish());
  return arrow::Table::Make(RejectedSchema(), arrays);
}

}  // namespace

RejectedRows::RejectedRows(std::string path) : path_(std::move(path)) {
  doing_ = absl::StrCat("cannot write '", path_, "'");
}

RejectedRows::~RejectedRows() = default;

absl::Status RejectedRows::Add(RejectedRow row, std::string place) {
  ++count_;
  if (examples_.size() < kMostExamples) {
    examples_.push_back(absl::StrCat(place, ", column '", row.column, "': ", row.reason));
  }
  rows_.push_back(std::move(row));
  places_.push_back(std::move(place));
  return rows_.size() < kRowsPerGroup ? absl::OkStatus() : Flush();
}

absl::Status RejectedRows::Open() {
  FULCRUM_ASSIGN_OR_RETURN(stream_, ingest::FromArrow(arrow::io::FileOutputStream::Open(path_), doing_));
  const auto properties =
      parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->enable_page_checksum()->build();
  FULCRUM_ASSIGN_OR_RETURN(
      writer_, ingest::FromArrow(parquet::arrow::FileWriter::Open(*RejectedSchema(), arrow::default_memory_pool(),
                                                                  stream_, properties),
                                 doing_));
  return absl::OkStatus();
}

absl::Status RejectedRows::Flush() {
  return ingest::WithoutExceptions(doing_, [&]() -> absl::Status {
    if (writer_ == nullptr) FULCRUM_RETURN_IF_ERROR(Open());
    FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(ToTable(rows_, places_), doing_));
    rows_.clear();
    places_.clear();
    return ingest::FromArrow(writer_->WriteTable(*table, kRowsPerGroup), doing_);
  });
}

absl::Status RejectedRows::Finish() {
  if (!rows_.empty()) FULCRUM_RETURN_IF_ERROR(Flush());
  if (writer_ == nullptr) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(
      ingest::WithoutExceptions(doing_, [&]() -> absl::Status { return ingest::FromArrow(writer_->Close(), doing_); }));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(stream_->Close(), doing_));
  writer_ = nullptr;
  return SyncFile(path_);
}

}  // namespace fulcrum::storage
