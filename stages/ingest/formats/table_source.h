// A table read a batch of rows at a time, whatever the format of its file.
//
// A source owns its file. Not thread-safe; the batches it gives are immutable and may be shared.
// Columns come as the format has them: text (binary or utf8) from CSV, numbers from typed formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::ingest {

/// What is wanted of a table.
struct TableRequest {
  /// Names of the columns to read; empty for all. Those that are absent are left out.
  std::vector<std::string> columns = {};
  InputLimits limits = {};
};

class TableSource {
 public:
  virtual ~TableSource() = default;

  /// As given by the user, for messages.
  virtual const std::string& path() const = 0;
  /// All columns of the file, wanted or not.
  virtual const std::vector<std::string>& all_column_names() const = 0;
  /// The columns of the batches, in their order.
  virtual const std::vector<std::string>& column_names() const = 0;
  /// The batches' schema, known before the first of them.
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  /// The next rows, or null after the last. Every value in them has been checked to be what its type promises.
  virtual absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
  /// The file that the last batch came from: a batch never has rows of two.
  virtual const std::string& current_file() const { return path(); }
  /// Rows of the whole table as its file states them, before any is read; nothing if the format does not say.
  virtual std::optional<std::int64_t> ClaimedRows() const { return std::nullopt; }
  /// Where data rows (counted from 0 over all batches) are in the file, as a person looks for them:
  /// "line 12". May read the file again: for messages only.
  virtual std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const = 0;
};

// What the readers of typed files (Parquet, Arrow IPC) have in common: their names and schema, the choice of columns,
// and that nothing a library throws gets past them.
//
// A base for TableSources; used like them, by one thread at a time.

class TypedSource : public TableSource {
 public:
  /// `format` is for messages: "Parquet".
  TypedSource(std::string path, const InputLimits& limits, const char* format);

  /// Once, before anything else.
  absl::Status Open(const TableRequest& request);

  const std::string& path() const override { return path_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

 protected:
  /// Opens the file; may throw.
  virtual absl::Status OpenOrThrow(const TableRequest& request) = 0;

  /// Takes the file's schema and makes that of the batches: indices of the fields that are wanted, in its order.
  absl::StatusOr<std::vector<int>> ChooseColumns(const arrow::Schema& whole, const TableRequest& request);

  const InputLimits& limits() const { return limits_; }
  /// What messages begin with: "cannot read 'a.parquet' as Parquet".
  const std::string& doing() const { return doing_; }

 private:
  std::string path_;
  InputLimits limits_;
  std::string doing_;
  std::vector<std::string> all_names_;
  std::vector<std::string> names_;
  std::shared_ptr<arrow::Schema> schema_;
};

// What every typed format checks about its columns. Thread-safe.

/// DataLoss if the name of a column is empty or not unique.
absl::Status CheckNamesDiffer(const arrow::Schema& schema, const std::string& path);

/// Indices of the fields with these names, in the order of the schema; all for no names. Absent ones are left out.
std::vector<int> ChooseFields(const arrow::Schema& schema, const std::vector<std::string>& names);

// The file formats that tables can be read from. A new format is one file and one line in table_source.cc.

struct TableReader {
  std::string format;                ///< "CSV"
  std::vector<std::string> endings;  ///< ".csv"; a compression's ending may follow
  std::function<absl::StatusOr<std::unique_ptr<TableSource>>(const std::string& path, const TableRequest&)> open;
};

const std::vector<TableReader>& TableReaders();

/// Opens a table by the ending of its path; DataLoss with the known endings for another one.
absl::StatusOr<std::unique_ptr<TableSource>> OpenTable(const std::string& path, const TableRequest& request = {});

/// Whether the ending of a path is that of a format.
bool HasReader(const std::string& path);

/// The format that OpenTable reads a path as: "CSV"; empty if the ending is unknown.
std::string FormatName(const std::string& path);

/// ".csv, .parquet, ..."
std::string KnownEndings();

/// Which of the files one of several processes reads: consecutive ones, with about as many bytes as those of the
/// others.
struct FileShare {
  std::size_t part = 0;
  std::size_t parts = 1;
};

/// Opens what a user names (files, folders, globs: see ListSources) as one table that has only the columns that the
/// options need. Null if there is no file for this share.
absl::StatusOr<std::unique_ptr<TableSource>> OpenSources(const std::vector<std::string>& named,
                                                         const ColumnOptions& columns = {},
                                                         const InputLimits& limits = {}, const FileShare& share = {});

// One function per format, implemented next to its reader.
absl::StatusOr<std::unique_ptr<TableSource>> OpenCsv(const std::string& path, const TableRequest& request);
/// A file or a stream, recognised by how it begins.
absl::StatusOr<std::unique_ptr<TableSource>> OpenIpc(const std::string& path, const TableRequest& request);
absl::StatusOr<std::unique_ptr<TableSource>> OpenLibsvm(const std::string& path, const TableRequest& request);
absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request);

// Several files read as one table, one after the other.
//
// The first file decides the columns; the others must have the same ones with the same types. Columns that the folders'
// names give come last, as text. A file that changed while it was read is an error: its parts may not belong together.

// The files behind what a user names: a file, a list of them, a folder, a glob, a folder that is partitioned as Hive
// does it ("country=fr/part-0.parquet"), here or on any file system that Arrow reaches by a URI.
//
// Functions without state; thread-safe.

struct SourceFile {
  std::string path;  ///< a path or a URI, as the readers take it
  /// Columns that the folders' names give, outermost first; empty if a value is Hive's word for none.
  std::vector<std::pair<std::string, std::string>> partitions = {};
};

/// The files, in the order in which they were named, those of a folder or glob sorted by their paths. In folders, files
/// whose format has no reader and those that begin with '.' or '_' are left out. NotFound if there are none;
/// DataLoss if files of one folder are partitioned in different ways.
absl::StatusOr<std::vector<SourceFile>> ListSources(const std::vector<std::string>& named);

/// Whether a folder's name gave this column: it says where rows were kept, so it is no feature unless it is named.
bool IsPartitionField(const arrow::Field& field);

/// `title` is what messages call the whole.
absl::StatusOr<std::unique_ptr<TableSource>> OpenJoined(std::string title, std::vector<SourceFile> files,
                                                        const TableRequest& request);

// CSV files, read by Arrow: a header line, commas, double quotes where needed, no line breaks inside values.
//
// All columns come as text (arrow::binary). The caller knows what a column means, turns it into numbers and can
// then name the offending value; Arrow's own conversion would give up at the first one.

// The header line of a CSV file, and the lines themselves where a message must name one.

/// Names of the columns, exactly as written. Rejects a file without a header, unnamed columns and a name
/// that comes twice.
absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const std::string& path, std::int64_t max_memory_bytes);

/// Line numbers, counted from 1, of the records with these numbers, counted from 0 with the header as
/// record 0: blank lines are lines but not records. Reads the file up to the last one; OutOfRange where there
/// are fewer.
absl::StatusOr<std::vector<std::uint64_t>> LinesOfRecords(const std::string& path,
                                                          std::span<const std::uint64_t> records,
                                                          std::int64_t max_memory_bytes);

// Lines of CSV as this project writes them: commas, "\n", quotes only where needed.

/// Appends a value, in quotes if it holds a comma, a quote or a line end.
void AppendCsvField(absl::string_view value, std::string& line);

// LIBSVM text as a table: the columns `label` (text), `indices` (lists of integers, from 0) and `values` (lists of
// numbers), one row a line. Lines of a block are parsed in parallel.

// One line of LIBSVM text: "label index:value index:value ... # comment".
//
// Thread-safe.

/// Rows of a block of text, joined.
struct LibsvmRows {
  std::vector<std::string> labels;
  std::vector<std::int32_t> offsets = {0};  ///< one more than rows
  std::vector<std::int32_t> indices;        ///< from 0, one less than in the file
  std::vector<double> values;

  std::size_t rows() const { return labels.size(); }
};

/// Largest index that is read; what is above is a damaged file or a hash that should have been narrower.
inline constexpr std::int32_t kLargestLibsvmIndex = 1 << 24;

/// What is wrong with a line.
struct LibsvmComplaint {
  std::size_t column = 0;  ///< in the line, from 1
  std::string what;
};

/// Appends a row; a line that is blank or only a comment appends none. "qid:" is not a feature and is left out.
/// After a complaint the rows are as before.
std::optional<LibsvmComplaint> AppendLibsvmLine(absl::string_view line, LibsvmRows& rows);

/// Whether a line is a row: not blank and not only a comment.
bool IsLibsvmRow(absl::string_view line);

}  // namespace fulcrum::ingest
