#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "arrow/csv/options.h"
#include "arrow/csv/parser.h"
#include "arrow/csv/reader.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

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

/// Arrow's CSV parser ends the process if its memory pool refuses. What it takes depends on the block alone, so that
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
  absl::Status LongRowError() const;
  absl::Status ReadError(const arrow::Status& status) const;
  std::vector<std::string> PlacesOfRecords(std::span<const std::uint64_t> records) const;

  std::string path_;
  std::int64_t max_memory_bytes_;
  std::int32_t block_bytes_ = 0;
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
  read.block_size = block_bytes_ = BlockBytes(raw_names_.size());
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

/// A row that does not fit a block: where it is, as far as that can be told.
absl::Status CsvSource::LongRowError() const {
  std::string place = "a row";
  if (auto lines = LineReader::Open(path_, max_memory_bytes_); lines.ok()) {
    for (std::uint64_t number = 1;; ++number) {
      const auto line = lines->Next();
      if (!line.ok() || !line->has_value()) break;
      if ((*line)->size() <= static_cast<std::size_t>(block_bytes_)) continue;
      place = absl::StrCat("line ", number);
      break;
    }
  }
  return absl::DataLossError(absl::StrCat(path_, ": ", place, " is longer than ", block_bytes_ >> 20,
                                          " MiB, which is the most that a row of CSV with ", raw_names_.size(),
                                          " columns may have; use Parquet or Arrow IPC for values this long, or close "
                                          "a quote that is left open"));
}

absl::Status CsvSource::ReadError(const arrow::Status& status) const {
  if (status.IsInvalid() && !ragged_.empty()) return RaggedError();
  if (status.IsInvalid() && absl::StrContains(status.message(), "straddl")) return LongRowError();
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

namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Arrow's own parser splits the line, so that quotes mean the same here as in the rows.
absl::StatusOr<std::vector<std::string>> SplitHeader(const std::string& line, const std::string& path) {
  arrow::csv::BlockParser parser(arrow::csv::ParseOptions::Defaults(), /*num_cols=*/-1, /*first_row=*/1,
                                 /*max_num_rows=*/1);
  const std::string doing = absl::StrCat("cannot read the header line of '", path, "'");
  std::uint32_t parsed_size = 0;
  FULCRUM_RETURN_IF_ERROR(FromArrow(parser.ParseFinal(line, &parsed_size), doing));
  std::vector<std::string> names;
  FULCRUM_RETURN_IF_ERROR(FromArrow(parser.VisitLastRow([&](const std::uint8_t* data, std::uint32_t size, bool) {
    names.emplace_back(reinterpret_cast<const char*>(data), size);
    return arrow::Status::OK();
  }),
                                    doing));
  return names;
}

absl::Status CheckNames(const std::vector<std::string>& names, const std::string& path) {
  if (std::all_of(names.begin(), names.end(), [](const std::string& name) { return ParseNumber(name).has_value(); })) {
    return absl::DataLossError(absl::StrCat(path, ", line 1: the file has no header, its first line is all numbers ('",
                                            names.front(), "', ...); add a first line with the names of the columns"));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const absl::string_view name = absl::StripAsciiWhitespace(names[i]);
    if (name.empty()) {
      return absl::DataLossError(absl::StrCat(path, ", line 1: column ", i + 1,
                                              " has no name; name it 'id' if it identifies the rows, "
                                              "otherwise give it a name of its own or remove it"));
    }
    if (!seen.insert(name).second) {
      return absl::DataLossError(
          absl::StrCat(path, ", line 1: the column '", name, "' comes twice; rename or remove one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const std::string& path, std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path, max_memory_bytes));
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(std::optional<std::string> line, lines.Next());
    if (!line) {
      return absl::DataLossError(absl::StrCat("'", path,
                                              "' is empty; it needs a header line with the names of the "
                                              "columns, and a line for each row"));
    }
    if (absl::StartsWith(*line, kByteOrderMark)) line->erase(0, kByteOrderMark.size());
    if (line->empty()) continue;
    FULCRUM_ASSIGN_OR_RETURN(std::vector<std::string> names, SplitHeader(*line, path));
    FULCRUM_RETURN_IF_ERROR(CheckNames(names, path));
    return names;
  }
}

absl::StatusOr<std::vector<std::uint64_t>> LinesOfRecords(const std::string& path,
                                                          std::span<const std::uint64_t> records,
                                                          std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path, max_memory_bytes));
  absl::flat_hash_map<std::uint64_t, std::uint64_t> line_of_record;
  for (std::uint64_t record : records) line_of_record[record] = 0;
  std::size_t found = 0;
  std::uint64_t line_number = 0;
  for (std::uint64_t record = 0; found < line_of_record.size();) {
    FULCRUM_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return absl::OutOfRangeError(absl::StrCat("'", path, "' has only ", record, " records"));
    ++line_number;
    if (line->empty()) continue;
    if (const auto wanted = line_of_record.find(record++); wanted != line_of_record.end()) {
      wanted->second = line_number;
      ++found;
    }
  }
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t record : records) numbers.push_back(line_of_record[record]);
  return numbers;
}

void AppendCsvField(absl::string_view value, std::string& line) {
  if (value.find_first_of(",\"\r\n") == absl::string_view::npos) {
    line.append(value.data(), value.size());
    return;
  }
  line.push_back('"');
  for (char character : value) {
    if (character == '"') line.push_back('"');
    line.push_back(character);
  }
  line.push_back('"');
}

}  // namespace fulcrum::ingest
