#include "storage/pool/pool_writer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "parquet/arrow/writer.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kRowsPerGroup = 16384;
constexpr std::size_t kMostExamples = 5;

std::shared_ptr<arrow::Schema> RejectedSchema() {
  return arrow::schema({arrow::field("source", arrow::utf8(), false), arrow::field("id", arrow::utf8()),
                        arrow::field("column", arrow::utf8(), false), arrow::field("reason", arrow::utf8(), false)});
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const std::vector<RejectedRow>& rows,
                                                     const std::vector<std::string>& places) {
  arrow::StringBuilder sources, ids, columns, reasons;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ARROW_RETURN_NOT_OK(sources.Append(places[i]));
    ARROW_RETURN_NOT_OK(rows[i].id.empty() ? ids.AppendNull() : ids.Append(rows[i].id));
    ARROW_RETURN_NOT_OK(columns.Append(rows[i].column));
    ARROW_RETURN_NOT_OK(reasons.Append(rows[i].reason));
  }
  arrow::ArrayVector arrays(4);
  ARROW_ASSIGN_OR_RAISE(arrays[0], sources.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[1], ids.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[2], columns.Finish());
  ARROW_ASSIGN_OR_RAISE(arrays[3], reasons.Finish());
  return arrow::Table::Make(RejectedSchema(), arrays);
}

}  // namespace

RejectedRows::RejectedRows(std::string path) : path_(std::move(path)) {
  doing_ = absl::StrCat("cannot write '", path_, "'");
}

RejectedRows::~RejectedRows() = default;

absl::Status RejectedRows::Add(RejectedRow row, std::string place) {
  ++count_;
  if (examples_.size() < kMostExamples) {
    const std::string id = row.column == "id" && !row.id.empty() ? absl::StrCat(" (", row.id, ")") : "";
    examples_.push_back(absl::StrCat(place, ", column '", row.column, "': ", row.reason, id));
  }
  rows_.push_back(std::move(row));
  places_.push_back(std::move(place));
  return rows_.size() < kRowsPerGroup ? absl::OkStatus() : Flush();
}

absl::Status RejectedRows::Open() {
  FULCRUM_ASSIGN_OR_RETURN(stream_, ingest::FromArrow(arrow::io::FileOutputStream::Open(path_), doing_));
  const auto properties =
      parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->enable_page_checksum()->build();
  FULCRUM_ASSIGN_OR_RETURN(
      writer_, ingest::FromArrow(parquet::arrow::FileWriter::Open(*RejectedSchema(), arrow::default_memory_pool(),
                                                                  stream_, properties),
                                 doing_));
  return absl::OkStatus();
}

absl::Status RejectedRows::Flush() {
  return ingest::WithoutExceptions(doing_, [&]() -> absl::Status {
    if (writer_ == nullptr) FULCRUM_RETURN_IF_ERROR(Open());
    FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(ToTable(rows_, places_), doing_));
    rows_.clear();
    places_.clear();
    return ingest::FromArrow(writer_->WriteTable(*table, kRowsPerGroup), doing_);
  });
}

absl::Status RejectedRows::Finish() {
  if (!rows_.empty()) FULCRUM_RETURN_IF_ERROR(Flush());
  if (writer_ == nullptr) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(
      ingest::WithoutExceptions(doing_, [&]() -> absl::Status { return ingest::FromArrow(writer_->Close(), doing_); }));
  FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(stream_->Close(), doing_));
  writer_ = nullptr;
  return SyncFile(path_);
}

namespace {

namespace fs = std::filesystem;

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::Status FolderError(absl::string_view doing, const std::string& path, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot ", doing, " '", path, "': ", error.message()));
}

std::string Numbered(absl::string_view stem, std::size_t number, absl::string_view ending) {
  return absl::StrCat(stem, absl::StrFormat("-%05d", number), ending);
}

}  // namespace

std::string FolderInJointPool(const std::string& folder, std::size_t process) {
  return absl::StrCat(WithoutTrailingSlash(folder), ".importing/", Numbered("process", process, ""));
}

absl::StatusOr<JointPool> JointPool::Begin(const std::string& folder) {
  std::error_code error;
  const std::string whole = WithoutTrailingSlash(folder);
  if (fs::exists(whole, error) && !fs::is_empty(whole, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", whole,
                     "' exists, and several processes can only make a new pool; name a folder that does not exist yet, "
                     "or add to the pool with one process"));
  }
  const std::string work_folder = absl::StrCat(whole, ".importing");
  fs::create_directories(work_folder, error);
  if (error) return FolderError("make the folder", work_folder, error);
  FULCRUM_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(work_folder));
  for (const auto& entry : fs::directory_iterator(work_folder, error)) fs::remove_all(entry.path(), error);
  return JointPool(whole, std::move(lock));
}

JointPool::~JointPool() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(absl::StrCat(folder_, ".importing"), ignored);
}

absl::StatusOr<PoolManifest> JointPool::Publish(const std::vector<std::size_t>& processes) {
  const std::string work_folder = absl::StrCat(folder_, ".importing");
  PoolManifest manifest;
  FeatureStatistics statistics;
  std::vector<std::string> names;
  std::error_code error;
  for (const std::size_t process : processes) {
    const std::string from = FolderInJointPool(folder_, process);
    FULCRUM_ASSIGN_OR_RETURN(const MappedPool pool, MappedPool::Open(from));
    FULCRUM_ASSIGN_OR_RETURN(const FeatureStatistics own, pool.Statistics());
    statistics.Merge(own);
    names = own.names();
    const PoolManifest& part_of = pool.manifest();
    manifest.sparse = part_of.sparse;
    manifest.has_ids = part_of.has_ids;
    manifest.rejected += part_of.rejected;
    const auto take = [&](const std::string& file, const std::string& name) {
      fs::rename(absl::StrCat(from, "/", file), absl::StrCat(work_folder, "/", name), error);
      return error ? FolderError("put in its place", file, error) : absl::OkStatus();
    };
    for (const std::string& file : part_of.rejected_files) {
      const std::size_t number = manifest.parts.size();
      const std::string name = number == 0 ? "rejected.parquet" : Numbered("rejected", number, ".parquet");
      FULCRUM_RETURN_IF_ERROR(take(file, name));
      manifest.rejected_files.push_back(name);
    }
    for (PoolPart part : part_of.parts) {
      const std::string file = std::exchange(part.file, Numbered("part", manifest.parts.size(), ".arrow"));
      FULCRUM_RETURN_IF_ERROR(take(file, part.file));
      manifest.parts.push_back(std::move(part));
    }
    fs::remove_all(from, error);
  }
  manifest.features = static_cast<std::int64_t>(statistics.features());
  manifest.statistics_file = Numbered("statistics", manifest.parts.size() - 1, ".arrow");
  FULCRUM_RETURN_IF_ERROR(
      WriteBatchFile(absl::StrCat(work_folder, "/", manifest.statistics_file), *statistics.ToBatch(names)));
  FULCRUM_RETURN_IF_ERROR(WriteManifest(work_folder, manifest));
  fs::rename(work_folder, folder_, error);
  if (error) return FolderError("put in its place", folder_, error);
  const std::string published = std::exchange(folder_, "");
  FULCRUM_RETURN_IF_ERROR(SyncFolder(fs::absolute(published).parent_path().string()));
  return manifest;
}

void NoteRows(const PoolBlock& block, KnownRows& known) {
  for (std::size_t row = 0; row < block.id_fingerprints.size(); ++row) {
    known.Add(block.id_fingerprints[row], block.content_fingerprints[row]);
  }
}

absl::Status NoteRows(const MappedPool& pool, KnownRows& known) {
  FULCRUM_RETURN_IF_ERROR(pool.Verify());
  for (std::size_t i = 0; i < pool.blocks(); ++i) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, pool.Block(i));
    PoolBlock block;
    FingerprintRows(*batch, pool.shape(), block);
    NoteRows(block, known);
  }
  return absl::OkStatus();
}

PoolWriter::PoolWriter(std::string folder, PoolShape shape, std::vector<std::string> feature_names)
    : folder_(WithoutTrailingSlash(std::move(folder))), shape_(shape), feature_names_(std::move(feature_names)) {}

absl::StatusOr<std::unique_ptr<PoolWriter>> PoolWriter::Open(const std::string& folder, const PoolShape& shape,
                                                             std::vector<std::string> feature_names) {
  std::unique_ptr<PoolWriter> writer(new PoolWriter(folder, shape, std::move(feature_names)));
  writer->is_new_ = !IsPoolFolder(writer->folder_);
  FULCRUM_RETURN_IF_ERROR(writer->is_new_ ? writer->Begin() : writer->Continue());
  FULCRUM_RETURN_IF_ERROR(writer->OpenFiles());
  return writer;
}

PoolWriter::~PoolWriter() {
  if (committed_ || !lock_.has_value()) return;
  part_.reset();
  rejected_.reset();
  std::error_code ignored;
  if (is_new_) fs::remove_all(work_folder_, ignored);
  if (!is_new_) RemoveLeftovers();
}

absl::Status PoolWriter::Begin() {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_empty(folder_, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", folder_, "' exists and is not an imported pool; name a folder that does not exist yet, or remove it"));
  }
  work_folder_ = absl::StrCat(folder_, ".importing");
  fs::create_directories(work_folder_, error);
  if (error) return FolderError("make the folder", work_folder_, error);
  FULCRUM_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(work_folder_));
  lock_.emplace(std::move(lock));
  // Left by an import that was killed; the lock ensures that no other process uses it.
  for (const auto& entry : fs::directory_iterator(work_folder_, error)) fs::remove_all(entry.path(), error);
  manifest_.features = shape_.features;
  manifest_.sparse = shape_.sparse;
  manifest_.has_ids = shape_.has_id;
  return absl::OkStatus();
}

absl::Status PoolWriter::Continue() {
  work_folder_ = folder_;
  FULCRUM_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(folder_));
  lock_.emplace(std::move(lock));
  FULCRUM_ASSIGN_OR_RETURN(const MappedPool pool, MappedPool::Open(folder_));
  manifest_ = pool.manifest();
  RemoveLeftovers();
  if (!shape_.has_id || !pool.shape().has_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder_,
                     "' is an existing pool, and without an id column it is impossible to tell "
                     "which rows are new; name the id column, or import into "
                     "another folder"));
  }
  if (shape_ != pool.shape()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the rows do not fit the pool '", folder_, "': it has ", pool.shape().features,
                     pool.shape().sparse ? " (sparse)" : "", " features and the rows have ", shape_.features,
                     shape_.sparse ? " (sparse)" : "",
                     ", or the id, label, cost and payload columns are not the same ones; import into another folder"));
  }
  FULCRUM_ASSIGN_OR_RETURN(statistics_, pool.Statistics());
  if (!statistics_.names().empty() && statistics_.names() != feature_names_) {
    return absl::FailedPreconditionError(absl::StrCat("the features have other names, or another order, than those of ",
                                                      "the pool '", folder_, "'; import into another folder"));
  }
  return NoteRows(pool, known_);
}

absl::Status PoolWriter::OpenFiles() {
  const std::size_t number = manifest_.parts.size();
  FULCRUM_ASSIGN_OR_RETURN(part_,
                           PartWriter::Create(work_folder_, Numbered("part", number, ".arrow"), SchemaOf(shape_)));
  const std::string rejected = number == 0 ? "rejected.parquet" : Numbered("rejected", number, ".parquet");
  rejected_ = std::make_unique<RejectedRows>(absl::StrCat(work_folder_, "/", rejected));
  return absl::OkStatus();
}

absl::Status PoolWriter::DropKnownRows(BuiltBlock& built) {
  if (!shape_.has_id) return absl::OkStatus();
  const PoolBlock& block = built.block;
  std::vector<std::uint32_t> fresh;
  const auto& ids = static_cast<const arrow::StringArray&>(*block.batch->column(ColumnsOf(shape_).id));
  for (std::uint32_t row = 0; row < block.id_fingerprints.size(); ++row) {
    if (elsewhere_ && !known_.Has(block.id_fingerprints[row])) {
      const std::string_view id = ids.GetView(row);
      FULCRUM_ASSIGN_OR_RETURN(const auto content, elsewhere_({id.data(), id.size()}));
      if (content) known_.Add(block.id_fingerprints[row], *content);
    }
    switch (known_.Add(block.id_fingerprints[row], block.content_fingerprints[row])) {
      case KnownRows::Verdict::kNew:
        fresh.push_back(row);
        break;
      case KnownRows::Verdict::kSame:
        ++counts_.existing;
        break;
      case KnownRows::Verdict::kOther:
        built.rejected.push_back({block.source_rows[row], ids.GetString(row).substr(0, 200), "id",
                                  "a row with this id and other content is in the pool already"});
    }
  }
  if (fresh.size() == block.source_rows.size()) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(built.block, KeepRows(block, fresh));
  return absl::OkStatus();
}

absl::Status PoolWriter::AppendBlock(const PoolBlock& block) {
  if (block.batch->num_rows() == 0) return absl::OkStatus();
  counts_.added += block.batch->num_rows();
  statistics_.Merge(block.statistics);
  return part_->Append(block);
}

absl::Status PoolWriter::Commit(double max_rejected_share, bool keep_reasons) {
  FULCRUM_RETURN_IF_ERROR(rejected_->Finish());
  if (counts_.rejected > 0 &&
      static_cast<double>(counts_.rejected) > max_rejected_share * static_cast<double>(counts_.read)) {
    return RejectAll(keep_reasons);
  }
  if (is_new_ && counts_.added == 0) {
    return absl::DataLossError("there is not a single row to import; a pool needs at least one");
  }
  if (counts_.added > 0 || counts_.rejected > 0) {
    FULCRUM_RETURN_IF_ERROR(FinishFiles());
    FULCRUM_RETURN_IF_ERROR(Publish());
  }
  return absl::OkStatus();
}

// The reasons are kept although the pool was not created.
absl::Status PoolWriter::RejectAll(bool keep_reasons) {
  const std::string kept = absl::StrCat(folder_, ".rejected.parquet");
  const bool moved = keep_reasons && std::rename(rejected_->path().c_str(), kept.c_str()) == 0;
  return absl::DataLossError(absl::StrCat(
      counts_.rejected, " of ", counts_.read, " rows cannot be taken, which is more than is allowed:\n  ",
      absl::StrJoin(rejected_->examples(), "\n  "), counts_.rejected > 5 ? "\n  ..." : "",
      "\n  what to do: correct them", moved ? absl::StrCat(" (all of them, with reasons, are in '", kept, "')") : "",
      ", or leave them out: name the columns that are features, or those that are not among the ignored columns, or "
      "allow a larger share of rejected rows; the pool is unchanged"));
}

absl::Status PoolWriter::FinishFiles() {
  FULCRUM_ASSIGN_OR_RETURN(PoolPart part, part_->Finish());
  const std::size_t number = manifest_.parts.size();
  manifest_.statistics_file = Numbered("statistics", number, ".arrow");
  manifest_.features = static_cast<std::int64_t>(statistics_.features());
  manifest_.parts.push_back(std::move(part));
  if (rejected_->count() > 0) {
    manifest_.rejected += rejected_->count();
    manifest_.rejected_files.push_back(fs::path(rejected_->path()).filename().string());
  }
  return WriteBatchFile(absl::StrCat(work_folder_, "/", manifest_.statistics_file),
                        *statistics_.ToBatch(feature_names_));
}

absl::Status PoolWriter::Publish() {
  FULCRUM_RETURN_IF_ERROR(WriteManifest(work_folder_, manifest_));
  committed_ = true;
  if (!is_new_) return absl::OkStatus();
  std::error_code error;
  // An empty folder of that name may exist; the rename replaces it.
  fs::rename(work_folder_, folder_, error);
  if (error) {
    committed_ = false;
    return FolderError("put in its place", folder_, error);
  }
  return SyncFolder(fs::absolute(folder_).parent_path().string());
}

void PoolWriter::RemoveLeftovers() const {
  auto saved = ReadManifest(folder_);
  if (!saved.ok()) return;
  std::vector<std::string> named = saved->rejected_files;
  named.insert(named.end(), {saved->statistics_file, kPoolManifestName});
  for (const PoolPart& part : saved->parts) named.push_back(part.file);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = absl::StartsWith(name, "part-") || absl::StartsWith(name, "statistics-") ||
                      absl::StartsWith(name, "rejected") ||
                      absl::StartsWith(name, absl::StrCat(kPoolManifestName, ".tmp-"));
    if (ours && std::find(named.begin(), named.end(), name) == named.end()) fs::remove(entry.path(), ignored);
  }
}

}  // namespace fulcrum::storage
