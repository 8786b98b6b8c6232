#include "stages/ingest/formats/table_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_writer.h"

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

std::string KnownEndings() {
  std::vector<std::string> endings;
  for (const TableReader& reader : TableReaders()) {
    endings.insert(endings.end(), reader.endings.begin(), reader.endings.end());
  }
  return absl::StrJoin(endings, ", ");
}

const std::vector<TableReader>& TableReaders() {
  static const auto* const readers = new std::vector<TableReader>{
      {"CSV", {".csv"}, OpenCsv},
      {"Parquet", {".parquet"}, OpenParquet},
      {"LIBSVM", {".svm", ".libsvm"}, OpenLibsvm},
      {"Arrow IPC", {".arrow", ".arrows", ".ipc", ".feather"}, OpenIpc},
  };
  return *readers;
}

namespace {

const TableReader* FindReader(const std::string& path) {
  const absl::string_view name = WithoutCompressionEnding(path);
  for (const TableReader& reader : TableReaders()) {
    for (const std::string& ending : reader.endings) {
      if (absl::EndsWithIgnoreCase(name, ending)) return &reader;
    }
  }
  return nullptr;
}

const TableReader* FindFormat(absl::string_view format) {
  for (const TableReader& reader : TableReaders()) {
    if (reader.format == format) return &reader;
  }
  return nullptr;
}

/// A pipe has no ending: its first bytes tell the binary formats, and everything else is taken for CSV.
absl::StatusOr<const TableReader*> FindReaderByContent(const std::string& path) {
  const absl::StatusOr<std::string> beginning = FirstBytes(path, 8);
  if (!beginning.ok()) return beginning.status();
  if (beginning->starts_with("PAR1")) return FindFormat("Parquet");
  const bool ipc = beginning->starts_with("ARROW1") || beginning->starts_with("\xFF\xFF\xFF\xFF");
  return FindFormat(ipc ? "Arrow IPC" : "CSV");
}

std::string TitleOf(const std::vector<std::string>& named) {
  return named.size() == 1 ? named[0] : absl::StrCat(named[0], " and ", named.size() - 1, " more");
}

}  // namespace

bool HasReader(const std::string& path) {
  return FindReader(path) != nullptr;
}

std::string FormatName(const std::string& path) {
  const TableReader* reader = FindReader(path);
  if (IsDescriptorPath(path)) reader = FindReaderByContent(path).value_or(nullptr);
  return reader == nullptr ? "" : reader->format;
}

absl::StatusOr<std::unique_ptr<TableSource>> OpenTable(const std::string& path, const TableRequest& request) {
  if (IsDescriptorPath(path)) {
    FULCRUM_ASSIGN_OR_RETURN(const TableReader* const reader, FindReaderByContent(path));
    return reader->open(path, request);
  }
  if (const TableReader* const reader = FindReader(path)) return reader->open(path, request);
  return absl::DataLossError(absl::StrCat("cannot tell the format of '", path, "' by its ending; known are ",
                                          KnownEndings(), " (text and IPC streams also with .gz or .zst)"));
}

namespace {

/// A file belongs to the part that has its middle, if all files are one after the other.
std::vector<SourceFile> FilesOfShare(std::vector<SourceFile> files, const FileShare& share) {
  if (share.parts <= 1) return files;
  std::vector<double> bytes;
  double total = 0;
  for (const SourceFile& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file.path, error);
    // Of what is elsewhere every file counts the same.
    bytes.push_back(error ? 1.0 : static_cast<double>(size) + 1);
    total += bytes.back();
  }
  std::vector<SourceFile> own;
  double before = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const double middle = (before + bytes[i] / 2) / total * static_cast<double>(share.parts);
    if (std::min(static_cast<std::size_t>(middle), share.parts - 1) == share.part) own.push_back(std::move(files[i]));
    before += bytes[i];
  }
  return own;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenSources(const std::vector<std::string>& named,
                                                         const ColumnOptions& columns, const InputLimits& limits,
                                                         const FileShare& share) {
  FULCRUM_ASSIGN_OR_RETURN(std::vector<SourceFile> all, ListSources(named));
  const std::vector<SourceFile> files = FilesOfShare(std::move(all), share);
  if (files.empty()) return nullptr;
  const std::string title = TitleOf(named);
  TableRequest request;
  request.limits = limits;
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TableSource> source, OpenJoined(title, files, request));
  FULCRUM_ASSIGN_OR_RETURN(request.columns, ColumnsToRead(source->all_column_names(), columns, title));
  if (request.columns.size() == source->all_column_names().size()) return source;
  return OpenJoined(title, files, request);
}

}  // namespace fulcrum::ingest
