#include "stages/ingest/csv_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrow/csv/options.h"
#include "arrow/csv/reader.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/csv_header.h"
#include "stages/ingest/input_stream.h"
#include "stages/ingest/problem_list.h"

namespace fulcrum::ingest {
namespace {

// A row must fit in a block, so a block has room for some rows of generous numbers.
std::int32_t BlockBytes(std::size_t columns) {
  constexpr std::size_t kBytesPerCell = 32, kRows = 16;
  constexpr std::size_t kSmallest = std::size_t{1} << 20, kLargest = std::size_t{1} << 30;
  return static_cast<std::int32_t>(std::clamp(columns * kBytesPerCell * kRows, kSmallest, kLargest));
}

// What Arrow's parser and the columns it makes may take for a block of very short cells.
constexpr std::int64_t kMemoryPerBlockByte = 16;

/// Arrow's CSV parser ends the process where its memory pool refuses. What it takes depends on the block alone, so that
/// is held against the limit beforehand, and the pool it gets has none.
absl::Status CheckBlockFits(std::int64_t block_bytes, std::int64_t max_memory_bytes, const std::string& path) {
  const std::int64_t needed = block_bytes * kMemoryPerBlockByte;
  if (needed <= max_memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("reading '", path, "' may take ", needed >> 20,
                                                   " MiB, and the limit is ", max_memory_bytes >> 10, " KiB"));
}

struct RaggedRecord {
  std::uint64_t record = 0;  // counted from 0, the header included
  std::int32_t values = 0;
};

class CsvSource final : public TableSource {
 public:
  CsvSource(std::string path, std::vector<std::string> raw_names, std::int64_t max_memory_bytes)
      : path_(std::move(path)), max_memory_bytes_(max_memory_bytes) {
    for (const std::string& name : raw_names) all_names_.emplace_back(absl::StripAsciiWhitespace(name));
    raw_names_ = std::move(raw_names);
  }

  absl::Status Open(const TableRequest& request);

  const std::string& path() const override { return path_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }
  std::shared_ptr<arrow::Schema> schema() const override {
    arrow::FieldVector fields;
    for (const std::string& name : names_) fields.push_back(arrow::field(name, arrow::binary()));
    return arrow::schema(std::move(fields));
  }
  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override;
  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override;

 private:
  std::vector<std::string> ChooseColumns(const TableRequest& request);
  arrow::csv::InvalidRowResult OnRaggedRecord(const arrow::csv::InvalidRow& row);
  absl::Status RaggedError() const;
  absl::Status ReadError(const arrow::Status& status) const;
  std::vector<std::string> PlacesOfRecords(std::span<const std::uint64_t> records) const;

  std::string path_;
  std::int64_t max_memory_bytes_;
  std::vector<std::string> raw_names_;  // as Arrow knows them
  std::vector<std::string> all_names_;
  std::vector<std::string> names_;
  std::vector<RaggedRecord> ragged_;  // ascending
  std::shared_ptr<arrow::csv::StreamingReader> reader_;
};

std::vector<std::string> CsvSource::ChooseColumns(const TableRequest& request) {
  if (request.columns.empty()) {
    names_ = all_names_;
    return raw_names_;
  }
  std::vector<std::string> chosen;
  for (const std::string& name : request.columns) {
    const auto found = std::find(all_names_.begin(), all_names_.end(), name);
    if (found == all_names_.end()) continue;
    names_.push_back(name);
    chosen.push_back(raw_names_[static_cast<std::size_t>(found - all_names_.begin())]);
  }
  return chosen;
}

absl::Status CsvSource::Open(const TableRequest& request) {
  auto read = arrow::csv::ReadOptions::Defaults();
  read.use_threads = false;
  read.block_size = BlockBytes(raw_names_.size());
  auto convert = arrow::csv::ConvertOptions::Defaults();
  convert.null_values.clear();
  convert.include_columns = ChooseColumns(request);
  if (convert.include_columns.empty()) return absl::OkStatus();
  for (const std::string& name : convert.include_columns) convert.column_types[name] = arrow::binary();
  auto parse = arrow::csv::ParseOptions::Defaults();
  parse.invalid_row_handler = [this](const arrow::csv::InvalidRow& row) { return OnRaggedRecord(row); };
  FULCRUM_RETURN_IF_ERROR(CheckColumnCount(static_cast<std::int64_t>(raw_names_.size()), request.limits, path_));
  FULCRUM_RETURN_IF_ERROR(CheckBlockFits(read.block_size, request.limits.max_memory_bytes, path_));
  FULCRUM_ASSIGN_OR_RETURN(auto stream, OpenInput(path_, request.limits.max_memory_bytes));
  auto reader = arrow::csv::StreamingReader::Make(arrow::io::IOContext(), std::move(stream), read, parse, convert);
  if (!reader.ok()) {
    // Arrow takes a header without a line end for no header; to us it is a table without rows.
    const std::uint64_t first_data_record[] = {1};
    if (ragged_.empty() && absl::IsOutOfRange(LinesOfRecords(path_, first_data_record, max_memory_bytes_).status())) {
      return absl::OkStatus();
    }
    return ReadError(reader.status());
  }
  reader_ = std::move(reader).ValueUnsafe();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> CsvSource::Next() {
  std::shared_ptr<arrow::RecordBatch> batch;
  if (reader_ == nullptr) return batch;
  if (const arrow::Status status = reader_->ReadNext(&batch); !status.ok()) return ReadError(status);
  if (batch == nullptr && !ragged_.empty()) return RaggedError();
  return batch;
}

// Ragged rows are set aside until there are enough of them to show, so that one message names several.
arrow::csv::InvalidRowResult CsvSource::OnRaggedRecord(const arrow::csv::InvalidRow& row) {
  ragged_.push_back({static_cast<std::uint64_t>(row.number - 1), row.actual_columns});
  return ragged_.size() < ProblemList::kMostShown ? arrow::csv::InvalidRowResult::Skip
                                                  : arrow::csv::InvalidRowResult::Error;
}

absl::Status CsvSource::RaggedError() const {
  std::vector<std::uint64_t> records;
  for (const RaggedRecord& ragged : ragged_) records.push_back(ragged.record);
  const std::vector<std::string> places = PlacesOfRecords(records);
  ProblemList problems;
  for (std::size_t i = 0; i < ragged_.size(); ++i) {
    problems.Add(absl::StrCat(places[i], ": ", ragged_[i].values, ragged_[i].values == 1 ? " value" : " values",
                              " instead of ", raw_names_.size()));
  }
  return problems.ToStatus(path_, absl::StrCat("the header names ", raw_names_.size(),
                                               " columns; give every row as many values, and put quotes around "
                                               "those that contain a comma"));
}

absl::Status CsvSource::ReadError(const arrow::Status& status) const {
  if (status.IsInvalid() && !ragged_.empty()) return RaggedError();
  return FromArrow(status, absl::StrCat("cannot read '", path_, "'"));
}

std::vector<std::string> CsvSource::PlacesOfRecords(std::span<const std::uint64_t> records) const {
  const auto lines = LinesOfRecords(path_, records, max_memory_bytes_);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < records.size(); ++i) {
    // The file was readable a moment ago; should it be gone now, the count without blank lines still helps.
    places.push_back(lines.ok() ? absl::StrCat("line ", (*lines)[i])
                                : absl::StrCat("line ", records[i] + 1, " (blank lines not counted)"));
  }
  return places;
}

std::vector<std::string> CsvSource::PlacesOfRows(std::span<const std::uint64_t> rows) const {
  std::vector<std::uint64_t> records;
  for (std::uint64_t row : rows) {
    std::uint64_t record = row + 1;
    for (const RaggedRecord& ragged : ragged_) {
      if (ragged.record <= record) ++record;
    }
    records.push_back(record);
  }
  return PlacesOfRecords(records);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenCsv(const std::string& path, const TableRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadCsvHeader(path, request.limits.max_memory_bytes));
  auto source = std::make_unique<CsvSource>(path, std::move(names), request.limits.max_memory_bytes);
  FULCRUM_RETURN_IF_ERROR(source->Open(request));
  return source;
}

}  // namespace fulcrum::ingest
