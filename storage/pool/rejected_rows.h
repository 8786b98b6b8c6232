// Rows that an import set aside, with where they were and why: rejected.parquet. Not thread-safe.
//
// The file is made when the first row comes. Rows go out a row group at a time, so that memory stays bounded however
// many there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "arrow/io/type_fwd.h"
#include "storage/pool/pool_block.h"

namespace parquet::arrow {
class FileWriter;
}  // namespace parquet::arrow

namespace fulcrum::storage {

class RejectedRows {
 public:
  explicit RejectedRows(std::string path);
  ~RejectedRows();

  /// `place` says where the row was in its source.
  absl::Status Add(RejectedRow row, std::string place);
  /// Ends the file, which is on the disk then; nothing where no row came.
  absl::Status Finish();

  std::int64_t count() const { return count_; }
  const std::string& path() const { return path_; }
  /// The first few, for a message.
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  absl::Status Flush();
  absl::Status Open();

  std::string path_;
  std::string doing_;
  std::int64_t count_ = 0;
  std::vector<std::string> examples_;
  std::vector<RejectedRow> rows_;
  std::vector<std::string> places_;
  std::shared_ptr<arrow::io::FileOutputStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace fulcrum::storage
