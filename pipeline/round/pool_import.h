// From files to a pool folder: read, check, write, in order and in bounded memory.
//
//   batches of the sources -> blocks (in parallel) -> the pool's files
//
// The flow is a bounded oneTBB graph: the reader decodes columns in parallel, blocks are made in parallel, and what
// waits between them is a fixed number of batches.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"
#include "storage/pool/pool_manifest.h"
#include "storage/pool/pool_writer.h"

namespace fulcrum::pipeline {

/// How an import is followed and ended early.
struct ImportControl {
  std::stop_token stop = {};  ///< ends it with Cancelled
  /// Told how many rows are in the pool's files so far.
  std::function<void(std::size_t rows)> on_progress = {};
};

struct ImportOptions {
  std::vector<std::string> sources = {};
  std::string folder = {};
  ingest::ColumnOptions columns = {};
  ingest::InputLimits limits = {};
  std::int64_t memory_bytes = std::int64_t{2} << 30;  ///< what the import may use, about
  double max_rejected_share = 0.01;
  bool keep_reasons = true;  ///< if more is rejected: all of it in "FOLDER.rejected.parquet"
  /// Asked, before anything is written, whether rows of this shape and with these features may come.
  std::function<absl::Status(const storage::PoolShape&, const std::vector<std::string>& feature_names)> check_shape =
      {};
  /// It is not an error if all rows are known elsewhere; nothing is written then.
  bool may_add_nothing = false;
  /// Rows that exist elsewhere: with the same content they exist already, with another one they are rejected.
  storage::PoolWriter::FindElsewhere find_elsewhere = {};
  ImportControl control = {};
};

struct ImportResult {
  storage::PoolWriter::Counts counts = {};
  storage::PoolManifest manifest = {};
  std::vector<std::string> rejected_examples = {};  ///< the first few, each with its place and the reason
};

/// Imports, or adds to the pool that is there; OK when it is on the disk. An error leaves the pool as it was.
absl::StatusOr<ImportResult> ImportPool(const ImportOptions& options);

}  // namespace fulcrum::pipeline
