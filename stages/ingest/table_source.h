// A table read a batch of rows at a time, whatever the format of its file.
//
// A source owns its file. Not thread-safe; the batches it gives are immutable and may be shared.
// Columns come as the format has them: text (binary or utf8) from CSV, numbers from typed formats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/input_limits.h"

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
  /// Where data rows (counted from 0 over all batches) are in the file, as a person looks for them:
  /// "line 12". May read the file again: for messages only.
  virtual std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const = 0;
};

}  // namespace fulcrum::ingest
