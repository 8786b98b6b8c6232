// What the readers of typed files (Parquet, Arrow IPC) have in common: their names and schema, the choice of columns,
// and that nothing a library throws gets past them.
//
// A base for TableSources; used like them, by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/table_source.h"

namespace fulcrum::ingest {

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

}  // namespace fulcrum::ingest
