#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/number_text.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kTextBytes = std::int64_t{4} << 20;
constexpr std::size_t kLinesPerTask = 256;

struct Problem {
  std::uint64_t line = 0;  // from 1
  LibsvmComplaint complaint;
};

struct ParsedLines {
  LibsvmRows rows;
  std::vector<Problem> problems;
};

std::vector<absl::string_view> SplitLines(absl::string_view text) {
  std::vector<absl::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

ParsedLines ParseLines(const std::vector<absl::string_view>& lines, std::size_t first, std::size_t count,
                       std::uint64_t first_line_number) {
  ParsedLines parsed;
  for (std::size_t i = first; i < first + count && parsed.problems.size() < ProblemList::kMostShown; ++i) {
    if (auto complaint = AppendLibsvmLine(lines[i], parsed.rows)) {
      parsed.problems.push_back({first_line_number + i, *std::move(complaint)});
    }
  }
  return parsed;
}

LibsvmRows Join(std::vector<ParsedLines>& parts) {
  LibsvmRows joined;
  for (ParsedLines& part : parts) {
    const auto shift = static_cast<std::int32_t>(joined.indices.size());
    for (std::size_t row = 1; row < part.rows.offsets.size(); ++row) {
      joined.offsets.push_back(shift + part.rows.offsets[row]);
    }
    joined.indices.insert(joined.indices.end(), part.rows.indices.begin(), part.rows.indices.end());
    joined.values.insert(joined.values.end(), part.rows.values.begin(), part.rows.values.end());
    std::move(part.rows.labels.begin(), part.rows.labels.end(), std::back_inserter(joined.labels));
    part = {};
  }
  return joined;
}

std::shared_ptr<arrow::Schema> FullSchema() {
  return arrow::schema({arrow::field("label", arrow::binary()), arrow::field("indices", arrow::list(arrow::int32())),
                        arrow::field("values", arrow::list(arrow::float64()))});
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> ToBatch(LibsvmRows rows) {
  arrow::BinaryBuilder labels;
  for (const std::string& label : rows.labels) ARROW_RETURN_NOT_OK(labels.Append(label));
  ARROW_ASSIGN_OR_RAISE(auto label_array, labels.Finish());
  const auto count = static_cast<std::int64_t>(rows.labels.size());
  const auto elements = static_cast<std::int64_t>(rows.indices.size());
  const auto indices =
      std::make_shared<arrow::Int32Array>(elements, arrow::Buffer::FromVector(std::move(rows.indices)));
  const auto values = std::make_shared<arrow::DoubleArray>(elements, arrow::Buffer::FromVector(std::move(rows.values)));
  const std::shared_ptr<arrow::Buffer> offsets = arrow::Buffer::FromVector(std::move(rows.offsets));
  const auto schema = FullSchema();
  return arrow::RecordBatch::Make(
      schema, count,
      arrow::ArrayVector{label_array,
                         std::make_shared<arrow::ListArray>(schema->field(1)->type(), count, offsets, indices),
                         std::make_shared<arrow::ListArray>(schema->field(2)->type(), count, offsets, values)});
}

class LibsvmSource final : public TableSource {
 public:
  explicit LibsvmSource(std::string path)
      : path_(std::move(path)),
        doing_(absl::StrCat("cannot read '", path_, "'")),
        all_names_(FullSchema()->field_names()) {}

  absl::Status Open(const TableRequest& request) {
    max_memory_bytes_ = request.limits.max_memory_bytes;
    for (int column = 0; column < FullSchema()->num_fields(); ++column) {
      const std::string& name = all_names_[static_cast<std::size_t>(column)];
      const bool wanted = request.columns.empty() ||
                          std::find(request.columns.begin(), request.columns.end(), name) != request.columns.end();
      if (!wanted) continue;
      chosen_.push_back(column);
      names_.push_back(name);
    }
    FULCRUM_ASSIGN_OR_RETURN(stream_, OpenInput(path_, max_memory_bytes_));
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }
  std::shared_ptr<arrow::Schema> schema() const override {
    arrow::FieldVector fields;
    for (int column : chosen_) fields.push_back(FullSchema()->field(column));
    return arrow::schema(std::move(fields));
  }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (!at_end_) {
      FULCRUM_ASSIGN_OR_RETURN(const std::string text, ReadWholeLines());
      FULCRUM_ASSIGN_OR_RETURN(LibsvmRows rows, Parse(text));
      if (rows.rows() == 0) continue;
      FULCRUM_ASSIGN_OR_RETURN(const auto batch, FromArrow(ToBatch(std::move(rows)), doing_));
      return FromArrow(batch->SelectColumns(chosen_), doing_);
    }
    return std::shared_ptr<arrow::RecordBatch>();
  }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) places.push_back(PlaceOfRow(row));
    return places;
  }

 private:
  /// Text up to a line end; at the end of the file, all that is left.
  absl::StatusOr<std::string> ReadWholeLines() {
    std::string text = std::exchange(rest_, {});
    for (;;) {
      FULCRUM_ASSIGN_OR_RETURN(const auto buffer, FromArrow(stream_->Read(kTextBytes), doing_));
      at_end_ = buffer->size() == 0;
      const std::size_t searched = text.size();
      text.append(reinterpret_cast<const char*>(buffer->data()), static_cast<std::size_t>(buffer->size()));
      if (at_end_) return text;
      const std::size_t end = text.rfind('\n');
      if (end != std::string::npos && end >= searched) {
        rest_ = text.substr(end + 1);
        text.resize(end + 1);
        return text;
      }
      if (text.size() > LineReader::kLongestLineBytes) {
        return absl::DataLossError(absl::StrCat(doing_, ": line ", lines_read_ + 1, " is longer than ",
                                                LineReader::kLongestLineBytes,
                                                " bytes; this does not look like a LIBSVM file"));
      }
    }
  }

  absl::StatusOr<LibsvmRows> Parse(const std::string& text) {
    const std::vector<absl::string_view> lines = SplitLines(text);
    std::vector<ParsedLines> parts((lines.size() + kLinesPerTask - 1) / kLinesPerTask);
    ParallelForBlocks(lines.size(), kLinesPerTask, [&](std::size_t first, std::size_t count) {
      parts[first / kLinesPerTask] = ParseLines(lines, first, count, lines_read_ + 1);
    });
    lines_read_ += lines.size();
    ProblemList problems;
    for (const ParsedLines& part : parts) {
      for (const auto& [line, complaint] : part.problems) {
        problems.Add(absl::StrCat("line ", line, ", column ", complaint.column, ": ", complaint.what));
      }
    }
    FULCRUM_RETURN_IF_ERROR(problems.ToStatus(path_,
                                              "a line is a label and then index:value pairs, indices from 1 "
                                              "and ascending: correct the lines, or leave them out"));
    return Join(parts);
  }

  // Blank lines and comments are lines but not rows.
  std::string PlaceOfRow(std::uint64_t row) const {
    auto lines = LineReader::Open(path_, max_memory_bytes_);
    std::uint64_t number = 0;
    for (std::uint64_t seen = 0; lines.ok();) {
      const auto line = lines->Next();
      if (!line.ok() || !line->has_value()) break;
      ++number;
      if (IsLibsvmRow(**line) && seen++ == row) return absl::StrCat("line ", number);
    }
    return absl::StrCat("row ", row);
  }

  std::string path_;
  std::string doing_;
  std::int64_t max_memory_bytes_ = 0;
  std::vector<std::string> all_names_;
  std::vector<int> chosen_;
  std::vector<std::string> names_;
  std::shared_ptr<arrow::io::InputStream> stream_;
  std::string rest_;  // the beginning of a line whose end has not been read
  bool at_end_ = false;
  std::uint64_t lines_read_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenLibsvm(const std::string& path, const TableRequest& request) {
  auto source = std::make_unique<LibsvmSource>(path);
  FULCRUM_RETURN_IF_ERROR(source->Open(request));
  return source;
}

namespace {

constexpr std::size_t kLongestShown = 40;

std::string Shown(absl::string_view text) {
  return text.size() <= kLongestShown ? absl::StrCat("'", text, "'")
                                      : absl::StrCat("'", text.substr(0, kLongestShown), "...'");
}

absl::string_view WithoutComment(absl::string_view line) {
  return line.substr(0, line.find('#'));
}

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(absl::string_view line) : line_(line) {}

  /// Empty after the last.
  absl::string_view Next() {
    while (position_ < line_.size() && absl::ascii_isspace(static_cast<unsigned char>(line_[position_]))) ++position_;
    begin_ = position_;
    while (position_ < line_.size() && !absl::ascii_isspace(static_cast<unsigned char>(line_[position_]))) ++position_;
    return line_.substr(begin_, position_ - begin_);
  }
  /// Of the last word, from 1.
  std::size_t column() const { return begin_ + 1; }

 private:
  absl::string_view line_;
  std::size_t begin_ = 0;
  std::size_t position_ = 0;
};

std::optional<std::string> CheckIndex(absl::string_view text, std::int32_t previous, std::int32_t& index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc::result_out_of_range) return absl::StrCat("the index ", Shown(text), " is too large");
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return absl::StrCat(Shown(text), " is not an index");
  }
  if (index < 1) return absl::StrCat("the index ", index, " is below 1; LIBSVM counts features from 1");
  if (index > kLargestLibsvmIndex) {
    return absl::StrCat("the index ", index, " is above ", kLargestLibsvmIndex, ", the largest that is read");
  }
  if (index <= previous) {
    return absl::StrCat("the index ", index, " comes after ", previous, "; indices must ascend within a line");
  }
  return std::nullopt;
}

std::optional<std::string> AppendElement(absl::string_view word, std::int32_t& previous, LibsvmRows& rows) {
  const std::size_t colon = word.find(':');
  if (colon == absl::string_view::npos) return absl::StrCat(Shown(word), " is not index:value");
  std::int32_t index = 0;
  if (auto complaint = CheckIndex(word.substr(0, colon), previous, index)) return complaint;
  const absl::string_view text = word.substr(colon + 1);
  const std::optional<double> value = ParseNumber(text);
  if (!value) return absl::StrCat("the value ", Shown(text), " of feature ", index, " is not a number");
  if (rows.indices.size() >= std::size_t{std::numeric_limits<std::int32_t>::max()}) return "there is too much text";
  rows.indices.push_back(index - 1);
  rows.values.push_back(*value);
  previous = index;
  return std::nullopt;
}

}  // namespace

bool IsLibsvmRow(absl::string_view line) {
  return !absl::StripAsciiWhitespace(WithoutComment(line)).empty();
}

std::optional<LibsvmComplaint> AppendLibsvmLine(absl::string_view line, LibsvmRows& rows) {
  Words words(WithoutComment(line));
  const absl::string_view label = words.Next();
  if (label.empty()) return std::nullopt;
  if (absl::StrContains(label, ":")) {
    return LibsvmComplaint{words.column(), absl::StrCat("the line begins with ", Shown(label), ", not with a label")};
  }
  const std::size_t before = rows.indices.size();
  std::int32_t previous = 0;
  for (absl::string_view word = words.Next(); !word.empty(); word = words.Next()) {
    if (absl::StartsWith(word, "qid:")) continue;
    if (auto complaint = AppendElement(word, previous, rows)) {
      rows.indices.resize(before);
      rows.values.resize(before);
      return LibsvmComplaint{words.column(), *std::move(complaint)};
    }
  }
  // "+1" and "1" are one class.
  rows.labels.emplace_back(label.front() == '+' && ParseNumber(label) ? label.substr(1) : label);
  rows.offsets.push_back(static_cast<std::int32_t>(rows.indices.size()));
  return std::nullopt;
}

}  // namespace fulcrum::ingest
