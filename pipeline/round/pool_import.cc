#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"
#include "storage/pool/pool_block.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kBatchesInFlight = 6;
// A batch is in memory as the reader gives it and as a block, and the reader holds one more.
constexpr std::int64_t kShareOfABatch = 64;
constexpr std::int64_t kSmallestBatchBytes = 64 << 10;
// Larger ones leave the cache between being decoded, looked at and written.
constexpr std::int64_t kLargestBatchBytes = std::int64_t{4} << 20;

/// Rows on their way, and where they came from.
struct Rows {
  std::shared_ptr<arrow::RecordBatch> batch;
  std::string file;
  std::uint64_t first_row = 0;  // in the file
};

struct Block {
  storage::BuiltBlock built;
  std::string file;
  std::uint64_t first_row = 0;
};

/// The sources' batches, each with its place.
class RowReader {
 public:
  explicit RowReader(ingest::TableSource& source) : source_(source) {}

  absl::StatusOr<std::optional<Rows>> Next() {
    FULCRUM_ASSIGN_OR_RETURN(auto batch, source_.Next());
    if (batch == nullptr) return std::nullopt;
    if (source_.current_file() != file_) {
      file_ = source_.current_file();
      row_ = 0;
    }
    const std::uint64_t first_row = row_;
    row_ += static_cast<std::uint64_t>(batch->num_rows());
    return Rows{std::move(batch), file_, first_row};
  }

 private:
  ingest::TableSource& source_;
  std::string file_;
  std::uint64_t row_ = 0;
};

ingest::InputLimits LimitsFor(const ImportOptions& options) {
  ingest::InputLimits limits = options.limits;
  limits.max_memory_bytes = options.memory_bytes;
  limits.batch_bytes = std::clamp(options.memory_bytes / kShareOfABatch, kSmallestBatchBytes, kLargestBatchBytes);
  return limits;
}

absl::Status Explained(const absl::Status& status, const ImportOptions& options) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "\n  what to do: the memory limit is ",
                                                   options.memory_bytes >> 10, " KiB; allow more, or free some"));
}

/// Runs the flow from the first batch, which has been read already, to the last.
absl::Status RunImport(const ImportOptions& options, const ingest::ColumnRoles& roles, Rows first, RowReader& reader,
                       storage::PoolWriter& writer) {
  const ingest::InputLimits limits = LimitsFor(options);
  std::optional<Rows> waiting = std::move(first);
  const auto read = [&]() -> absl::StatusOr<std::optional<Rows>> {
    if (options.control.stop.stop_requested()) return absl::CancelledError("the import was cancelled");
    if (waiting) return std::exchange(waiting, std::nullopt);
    return reader.Next();
  };
  const auto build = [&](Rows rows) -> absl::StatusOr<Block> {
    auto built = storage::BuildBlock(*rows.batch, roles, limits);
    if (!built.ok())
      return absl::Status(built.status().code(), absl::StrCat(rows.file, ", ", built.status().message()));
    return Block{*std::move(built), std::move(rows.file), rows.first_row};
  };
  const auto write = [&](Block block) -> absl::Status {
    const auto place = [&](std::uint64_t row) { return absl::StrCat(block.file, ", row ", block.first_row + row); };
    FULCRUM_RETURN_IF_ERROR(writer.Append(std::move(block.built), place));
    if (options.control.on_progress) options.control.on_progress(static_cast<std::size_t>(writer.counts().read));
    return absl::OkStatus();
  };
  return RunBoundedFlow({.max_in_flight = kBatchesInFlight,
                         .source_name = "reading",
                         .transform_name = "checking",
                         .sink_name = "writing"},
                        read, build, write);
}

}  // namespace

absl::StatusOr<ImportResult> ImportPool(const ImportOptions& options) {
  auto opened = ingest::OpenSources(options.sources, options.columns, LimitsFor(options));
  if (!opened.ok()) return Explained(opened.status(), options);
  const std::unique_ptr<ingest::TableSource> source = *std::move(opened);
  FULCRUM_ASSIGN_OR_RETURN(ingest::ColumnRoles roles,
                           ingest::AssignRoles(*source->schema(), options.columns, source->path()));
  RowReader reader(*source);
  auto first = reader.Next();
  if (!first.ok()) return Explained(first.status(), options);
  if (!first->has_value()) {
    return absl::DataLossError(absl::StrCat(source->path(), " has no rows; a pool needs at least one"));
  }
  ingest::SettleWidths(*(*first)->batch, roles);
  if (!roles.sparse() && roles.width() == 0) {
    return absl::DataLossError(absl::StrCat(source->path(), ": its lists are empty; nothing can be distinguished"));
  }
  if (options.check_shape) {
    FULCRUM_RETURN_IF_ERROR(options.check_shape(storage::ShapeFor(roles), roles.FeatureNames()));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto writer,
                           storage::PoolWriter::Open(options.folder, storage::ShapeFor(roles), roles.FeatureNames()));
  writer->SetElsewhere(options.find_elsewhere);
  const absl::Status ran = RunImport(options, roles, **std::move(first), reader, *writer);
  if (!ran.ok()) return Explained(ran, options);
  const bool nothing_to_keep = options.may_add_nothing && writer->counts().added == 0;
  if (!nothing_to_keep) FULCRUM_RETURN_IF_ERROR(writer->Commit(options.max_rejected_share, options.keep_reasons));
  return ImportResult{writer->counts(), writer->manifest(), writer->rejected_examples()};
}

}  // namespace fulcrum::pipeline
