#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/record_batch.h"
#include "pipeline/round/flow.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/communicator.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"
#include "storage/pool/mapped_pool.h"
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
  auto opened = ingest::OpenSources(options.sources, options.columns, LimitsFor(options), options.share);
  if (!opened.ok()) return Explained(opened.status(), options);
  const std::unique_ptr<ingest::TableSource> source = *std::move(opened);
  if (source == nullptr) return ImportResult{};
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

namespace {

/// An id of a row, and what else it has, as fingerprints.
struct RowPrint {
  std::uint64_t id = 0;
  std::uint64_t content = 0;
};

/// A row that another rank had before.
struct KnownRow {
  std::uint64_t rank = 0;
  RowPrint row = {};
};

constexpr int kIdShift = 60;
constexpr std::uint64_t kIdParts = std::uint64_t{1} << (64 - kIdShift);

/// By part of the ids, so that the root never holds those of the whole pool.
absl::StatusOr<std::vector<std::vector<RowPrint>>> PrintsOf(const std::string& folder) {
  std::vector<std::vector<RowPrint>> prints(kIdParts);
  if (!storage::IsPoolFolder(folder)) return prints;
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(folder));
  for (std::size_t i = 0; i < pool.blocks(); ++i) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, pool.Block(i));
    storage::PoolBlock block;
    storage::FingerprintRows(*batch, pool.shape(), block);
    for (std::size_t row = 0; row < block.id_fingerprints.size(); ++row) {
      const std::uint64_t id = block.id_fingerprints[row];
      prints[id >> kIdShift].push_back({id, block.content_fingerprints[row]});
    }
  }
  return prints;
}

/// The rows of this rank that an earlier one has too: what the first of them has besides the id.
absl::flat_hash_map<std::uint64_t, std::uint64_t> RowsOfEarlierRanks(const Communicator& peers,
                                                                     std::vector<std::vector<RowPrint>> prints) {
  absl::flat_hash_map<std::uint64_t, std::uint64_t> earlier;
  for (std::vector<RowPrint>& part : prints) {
    const std::vector<std::string> all = peers.Gather(BytesOf(std::span<const RowPrint>(part)));
    std::vector<KnownRow> known;
    absl::flat_hash_map<std::uint64_t, std::uint64_t> first;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::vector<RowPrint> rows;
      AppendFrom(all[rank], rows);
      // A rank has each id once.
      for (const RowPrint& row : rows) {
        const auto [found, is_new] = first.try_emplace(row.id, row.content);
        if (!is_new) known.push_back({rank, {row.id, found->second}});
      }
    }
    BroadcastValues(peers, known);
    for (const KnownRow& each : known) {
      if (each.rank == static_cast<std::uint64_t>(peers.rank())) earlier.emplace(each.row.id, each.row.content);
    }
  }
  return earlier;
}

/// What all parts of a pool must have in common.
absl::StatusOr<std::string> DescribeRows(const std::string& folder) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(folder));
  FULCRUM_ASSIGN_OR_RETURN(const storage::FeatureStatistics statistics, pool.Statistics());
  const storage::PoolShape& shape = pool.shape();
  return absl::StrCat(shape.features, " features", shape.sparse ? " (sparse)" : "", shape.has_id ? ", ids" : "",
                      shape.has_label ? ", labels" : "", shape.has_cost ? ", costs" : "",
                      shape.has_payload ? ", payloads" : "", "; ", absl::StrJoin(statistics.names(), ", "));
}

/// The same on every rank.
absl::Status CheckParts(const Communicator& peers, const std::string& folder, bool has_rows) {
  const std::vector<std::uint8_t> ranks = ShareValue<std::uint8_t>(peers, has_rows ? 1 : 0);
  const auto first = std::ranges::find(ranks, 1) - ranks.begin();
  if (first == static_cast<std::ptrdiff_t>(ranks.size())) {
    return absl::DataLossError("there is not a single row to import; a pool needs at least one");
  }
  absl::StatusOr<std::string> own = has_rows ? DescribeRows(folder) : std::string();
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, own.status()));
  std::string expected = *own;
  peers.Broadcast(expected, static_cast<int>(first));
  const bool fits = !has_rows || *own == expected;
  return AgreeOn(peers, fits ? absl::OkStatus()
                             : absl::DataLossError(absl::StrCat(
                                   "the files here have other columns (", own->substr(0, 200), ") than those of rank ",
                                   first, " (", expected.substr(0, 200), "); import files with the same columns")));
}

}  // namespace

absl::StatusOr<ImportResult> ImportPoolTogether(const ImportOptions& options, const Communicator& peers) {
  if (peers.is_alone()) return ImportPool(options);
  std::optional<storage::JointPool> joint;  // at the root
  absl::Status begun;
  if (peers.is_root()) {
    auto opened = storage::JointPool::Begin(options.folder);
    begun = opened.status();
    if (opened.ok()) joint.emplace(*std::move(opened));
  }
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, begun));

  ImportOptions own = options;
  own.folder = storage::FolderInJointPool(options.folder, static_cast<std::size_t>(peers.rank()));
  own.share = {.part = static_cast<std::size_t>(peers.rank()), .parts = static_cast<std::size_t>(peers.size())};
  own.max_rejected_share = 1;  // the share of all ranks counts
  own.may_add_nothing = true;
  absl::StatusOr<ImportResult> imported = ImportPool(own);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, imported.status()));
  FULCRUM_RETURN_IF_ERROR(CheckParts(peers, own.folder, imported->counts.added > 0));

  auto prints = PrintsOf(own.folder);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, prints.status()));
  const auto earlier = RowsOfEarlierRanks(peers, *std::move(prints));
  if (!earlier.empty()) {
    // Once more, without them. They are few, or the files are not what they should be.
    own.find_elsewhere = [&](absl::string_view id) -> absl::StatusOr<std::optional<std::uint64_t>> {
      const auto found = earlier.find(storage::Fingerprint(id.data(), id.size()));
      return found == earlier.end() ? std::nullopt : std::optional(found->second);
    };
    std::error_code ignored;
    std::filesystem::remove_all(own.folder, ignored);
    imported = ImportPool(own);
  }
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, imported.status()));

  using Counts = storage::PoolWriter::Counts;
  const std::vector<Counts> counts = ShareValue(peers, imported->counts);
  ImportResult result{.rejected_examples = imported->rejected_examples};
  std::vector<std::size_t> with_rows;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    result.counts.read += counts[rank].read;
    result.counts.added += counts[rank].added;
    result.counts.existing += counts[rank].existing;
    result.counts.rejected += counts[rank].rejected;
    if (counts[rank].added > 0) with_rows.push_back(rank);
  }
  const bool too_many =
      result.counts.rejected > 0 && static_cast<double>(result.counts.rejected) >
                                        options.max_rejected_share * static_cast<double>(result.counts.read);
  if (too_many) {
    const auto examples = peers.Gather(absl::StrJoin(imported->rejected_examples, "\n  "));
    std::string text;
    for (const std::string& each : examples) {
      if (!each.empty()) absl::StrAppend(&text, "\n  ", each);
    }
    return AgreeOn(peers, peers.is_root()
                              ? absl::DataLossError(absl::StrCat(
                                    result.counts.rejected, " of ", result.counts.read,
                                    " rows cannot be taken, which is more than is allowed:", text,
                                    "\n  what to do: correct them, or allow a larger share of rejected rows; "
                                    "no pool was made"))
                              : absl::OkStatus());
  }
  absl::Status published;
  if (peers.is_root()) {
    auto manifest = joint->Publish(with_rows);
    published = manifest.status();
    if (manifest.ok()) result.manifest = *std::move(manifest);
  }
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, published));
  return result;
}

}  // namespace fulcrum::pipeline
