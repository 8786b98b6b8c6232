#include "pipeline/campaign/pool/pool_growth.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_writer.h"
#include "storage/rules/offer_rules.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {

RowUpload::RowUpload(std::string file, std::shared_ptr<std::atomic<bool>> busy)
    : file_(std::move(file)), busy_(std::move(busy)), stream_(file_, std::ios::binary | std::ios::trunc) {}

RowUpload::~RowUpload() {
  stream_.close();
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
  *busy_ = false;
}

absl::StatusOr<std::unique_ptr<RowUpload>> RowUpload::Begin(const std::string& folder,
                                                            std::shared_ptr<std::atomic<bool>> busy) {
  if (busy->exchange(true)) {
    return absl::AbortedError("other rows are being appended to this campaign; try again when that is done");
  }
  std::unique_ptr<RowUpload> upload(new RowUpload(folder + "/incoming.arrow", std::move(busy)));
  FULCRUM_RETURN_IF_ERROR(upload->CheckDisk());
  return upload;
}

absl::Status RowUpload::CheckDisk() const {
  if (stream_) return absl::OkStatus();
  return absl::UnavailableError("the server cannot keep what was sent; is its disk full? Try again later");
}

absl::Status RowUpload::Add(absl::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMostBytes >> 20, " MiB were sent at once; append the rows in several requests"));
  }
  checksum_.Add({bytes.data(), bytes.size()});
  stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return CheckDisk();
}

absl::Status RowUpload::Finish() {
  stream_.close();
  return CheckDisk();
}

namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{512} << 20;

absl::Status CheckShape(const CampaignPool& pool, const storage::PoolShape& shape,
                        const std::vector<std::string>& names) {
  if (shape.has_id && pool.ids().are_row_numbers()) {
    return absl::InvalidArgumentError(
        "the examples of this campaign are known by their row numbers, and the rows have a column of ids; leave that "
        "out, and they get the next numbers");
  }
  if (!shape.has_id && !pool.ids().are_row_numbers()) {
    return absl::InvalidArgumentError(absl::StrCat("the rows have no column of ids; name it '",
                                                   pool.columns().id.empty() ? "id" : pool.columns().id,
                                                   "', as in the campaign's pool"));
  }
  if (shape.sparse) return absl::OkStatus();
  if (pool.sparse()) {
    return absl::InvalidArgumentError("the pool is sparse and the rows are not; give both in the same form");
  }
  return pool.CheckFeatures(names);
}

/// What is wrong with the file is wrong with what was sent.
absl::Status Blamed(const absl::Status& status, const AppendRequest& request) {
  const bool theirs = absl::IsDataLoss(status) || absl::IsNotFound(status);
  return absl::Status(theirs ? absl::StatusCode::kInvalidArgument : status.code(),
                      absl::StrReplaceAll(std::string(status.message()), {{request.file, request.called}}));
}

v1::AppendItemsResponse ToResponse(const ImportResult& result, const AppendRequest& request, std::size_t pool_rows) {
  v1::AppendItemsResponse response;
  response.set_read(result.counts.read);
  response.set_added(result.counts.added);
  response.set_existing(result.counts.existing);
  response.set_rejected(result.counts.rejected);
  for (const std::string& example : result.rejected_examples) {
    response.add_rejected_examples(absl::StrReplaceAll(example, {{request.file, request.called}}));
  }
  response.set_pool_rows(static_cast<std::int64_t>(pool_rows));
  return response;
}

}  // namespace

absl::StatusOr<Appended> PoolAppender::Append(const AppendRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto answered, store_.Run(storage::FindAppendAnswer, {.by = request.by,
                                                                                       .request_id = request.request_id,
                                                                                       .content = request.checksum}));
  if (answered) {
    Appended appended{.repeated = true};
    FULCRUM_RETURN_IF_ERROR(ParseStoredText(*answered, appended.response));
    return appended;
  }
  if (store_.status()->life == storage::Life::kDone) {
    return absl::FailedPreconditionError("the campaign is over; no round will come that could use more examples");
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_.Run(storage::AppendedSoFar, {}));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, pool_.Follow(appended, store_.folder()));
  FULCRUM_ASSIGN_OR_RETURN(v1::AppendItemsResponse response, AppendMarked(request, *pool, appended.size() + 1));
  return Appended{.response = std::move(response)};
}

absl::StatusOr<v1::AppendItemsResponse> PoolAppender::AppendMarked(const AppendRequest& request,
                                                                   const CampaignPool& pool, std::size_t number) {
  const std::string file = absl::StrCat("append-", absl::StrReplaceAll(request.checksum, {{":", "-"}}), ".marker");
  FULCRUM_ASSIGN_OR_RETURN(CrashMarker marker, CrashMarker::Open(store_.folder().File(file)));
  if (marker.gives_up()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the process died ", marker.deaths(), " times in a row while it appended ", request.called,
                     "; it is not tried again until ", file, " in the campaign's folder is deleted"));
  }
  FULCRUM_RETURN_IF_ERROR(marker.Begin(request.checksum));
  absl::StatusOr<v1::AppendItemsResponse> response = AppendNew(request, pool, number);
  (absl::IsCancelled(response.status()) ? marker.Cancel() : marker.End()).IgnoreError();
  return response;
}

absl::StatusOr<PoolAppender::NewFolder> PoolAppender::MakeFolder(const std::string& file,
                                                                 const ingest::ColumnOptions& columns,
                                                                 const CampaignPool& pool, std::size_t number,
                                                                 const ImportControl& control) {
  NewFolder made{.name = absl::StrFormat("pool/appended-%05d", number)};
  ImportOptions options;
  options.sources = {file};
  options.folder = store_.folder().File(made.name);
  options.columns = columns;
  options.memory_bytes = kMemoryBytes;
  options.max_rejected_share = 1;
  options.may_add_nothing = true;
  options.check_shape = [&](const storage::PoolShape& shape, const std::vector<std::string>& names) {
    return CheckShape(pool, shape, names);
  };
  std::error_code ignored;
  std::filesystem::remove_all(options.folder, ignored);
  options.control = control;
  // Without ids each row is a new one. Only the rows that come are looked up, whatever the size of the pool.
  CampaignPool::OpenFolders opened;
  if (!pool.ids().are_row_numbers()) {
    options.find_elsewhere = [&](absl::string_view id) { return pool.ContentOf(id, opened); };
  }
  FULCRUM_ASSIGN_OR_RETURN(made.imported, ImportPool(options));
  if (made.imported.counts.added > 0) {
    // Before the log tells of them: rows that cannot be read back must not become part of the campaign.
    FULCRUM_ASSIGN_OR_RETURN(made.grown, pool.With(options.folder));
    FULCRUM_RETURN_IF_ERROR(admit_(*made.grown, pool.rows()));
  }
  return made;
}

absl::Status PoolAppender::TakeUp(std::shared_ptr<const CampaignPool> grown) {
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_.Run(storage::AppendedSoFar, {}));
  return pool_.Follow(appended, store_.folder(), std::move(grown)).status();
}

absl::StatusOr<v1::AppendItemsResponse> PoolAppender::AppendNew(const AppendRequest& request, const CampaignPool& pool,
                                                                std::size_t number) {
  absl::StatusOr<NewFolder> made = MakeFolder(request.file, pool.columns(), pool, number, request.control);
  if (!made.ok()) return Blamed(made.status(), request);
  const ImportResult& imported = made->imported;
  const std::size_t rows = made->grown == nullptr ? pool.rows() : made->grown->rows();
  v1::AppendItemsResponse response = ToResponse(imported, request, rows);
  FULCRUM_RETURN_IF_ERROR(store_
                              .Run(storage::AppendRows, {.by = request.by,
                                                         .request_id = request.request_id,
                                                         .content = request.checksum,
                                                         .folder = made->name,
                                                         .rows = imported.counts.added,
                                                         .answer = StoredText(response)})
                              .status());
  FULCRUM_RETURN_IF_ERROR(TakeUp(made->grown));
  return response;
}

absl::Status PoolAppender::StoreOffered(const std::string& file, const ingest::ColumnOptions& columns,
                                        std::int64_t through) {
  FULCRUM_ASSIGN_OR_RETURN(const auto appended, store_.Run(storage::AppendedSoFar, {}));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, pool_.Follow(appended, store_.folder()));
  FULCRUM_ASSIGN_OR_RETURN(NewFolder made, MakeFolder(file, columns, *pool, appended.size() + 1, {}));
  FULCRUM_RETURN_IF_ERROR(
      store_
          .Run(storage::StoreOfferedRows, {.folder = made.name, .rows = made.imported.counts.added, .through = through})
          .status());
  return TakeUp(std::move(made.grown));
}

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBetweenLooks{2};
constexpr char kBy[] = "watched folder";

bool IsBeingWritten(const std::string& name) {
  return absl::StartsWith(name, ".") || absl::EndsWith(name, ".tmp") || absl::EndsWith(name, ".part");
}

// About five minutes.
constexpr int kMostLooksToWait = 128;

bool IsForTheNextLook(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsAborted(status) || absl::IsUnavailable(status);
}

/// Regular files, whose names say that they are whole, by name.
absl::StatusOr<std::set<fs::directory_entry>> FilesIn(const std::string& folder) {
  std::error_code error, ignored;
  std::set<fs::directory_entry> files;
  // Not as a range: going on to the next entry would throw if the disk fails.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_regular_file(ignored) && !IsBeingWritten(entry->path().filename().string())) files.insert(*entry);
  }
  if (error) return absl::UnavailableError(absl::StrCat("'", folder, "' cannot be read: ", error.message()));
  return files;
}

}  // namespace

absl::StatusOr<std::string> ResolveWatchedFolder(const WatchedFolder& watched) {
  FULCRUM_ASSIGN_OR_RETURN(const auto paths, ResolvePoolSources({watched.folder}, watched.root));
  std::error_code error;
  if (fs::is_directory(paths[0], error)) return paths[0];
  return absl::InvalidArgumentError(
      absl::StrCat("pool.watch: '", watched.folder, "' is not a folder; create it first, and move files into it"));
}

void FolderWatch::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      Look(stop);
      never.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    }
  });
}

void FolderWatch::Look(const std::stop_token& stop) {
  const auto folder = ResolveWatchedFolder(watched_);
  if (!folder.ok()) return Tell(std::string(folder.status().message()));
  const auto files = FilesIn(*folder);
  if (!files.ok()) return Tell(std::string(files.status().message()));
  last_problem_.clear();
  std::map<std::string, Seen> now;
  for (const fs::directory_entry& file : *files) {
    if (stop.stop_requested()) return;
    const std::string name = file.path().filename().string();
    const auto before = seen_.find(name);
    LookAt(file, before == seen_.end() ? nullptr : &before->second, now[name], stop);
  }
  seen_ = std::move(now);
}

void FolderWatch::LookAt(const fs::directory_entry& file, const Seen* before, Seen& now, const std::stop_token& stop) {
  std::error_code gone;
  now = {.size = file.file_size(gone), .written = file.last_write_time(gone)};
  if (gone || before == nullptr || !before->LooksLike(now)) return;
  now = *before;
  if (now.settled) return;
  if (now.looks_to_wait > 0) {
    --now.looks_to_wait;
    return;
  }
  TakeIn(file.path().string(), file.path().filename().string(), now, stop);
}

absl::StatusOr<Appended> FolderWatch::Append(const std::string& path, const std::string& name,
                                             const std::stop_token& stop) const {
  // A link may lead out; then nothing of what it names is read.
  FULCRUM_RETURN_IF_ERROR(ResolvePoolSources({path}, watched_.root).status());
  FULCRUM_ASSIGN_OR_RETURN(const std::string checksum, ChecksumOfFile(path));
  return take_({.by = kBy,
                .request_id = absl::StrCat(checksum, " ", name),
                .file = path,
                .checksum = checksum,
                .called = absl::StrCat("'", name, "'"),
                .control = {.stop = stop}});
}

void FolderWatch::TakeIn(const std::string& path, const std::string& name, Seen& file, const std::stop_token& stop) {
  const absl::StatusOr<Appended> appended = Append(path, name, stop);
  if (IsForTheNextLook(appended.status())) return;
  const std::string reason(appended.status().message());
  if (absl::IsResourceExhausted(appended.status())) {
    // A full disk or queue, or no memory for more rows: it may pass, but reading a large file takes long.
    file.looks_to_wait = std::min(kMostLooksToWait, 1 << std::min(file.failures++, 20));
    Log(LogLevel::kWarning, "file cannot be appended now; retrying",
        {{"campaign", watched_.campaign},
         {"file", name},
         {"reason", reason},
         {"attempts", std::int64_t{file.failures}}});
    return;
  }
  file.settled = true;
  if (!appended.ok()) {
    Log(LogLevel::kWarning, "file cannot be appended; it is left alone until it changes",
        {{"campaign", watched_.campaign}, {"file", name}, {"reason", reason}});
  } else if (!appended->repeated) {
    Log(LogLevel::kInfo, "file appended",
        {{"campaign", watched_.campaign},
         {"file", name},
         {"added", appended->response.added()},
         {"existing", appended->response.existing()},
         {"rejected", appended->response.rejected()}});
  }
}

void FolderWatch::Tell(const std::string& problem) {
  if (std::exchange(last_problem_, problem) == problem) return;
  Log(LogLevel::kWarning, "watched folder cannot be read", {{"campaign", watched_.campaign}, {"reason", problem}});
}

namespace {

bool IsInside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolvePoolSources(const std::vector<std::string>& sources,
                                                            const std::string& root) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(root, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the folder of pools '", root, "' cannot be read: ", error.message()));
  }
  std::vector<std::string> resolved;
  for (const std::string& source : sources) {
    // The system would read the name only up to there.
    if (source.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the source '", PrintableText(source), "' contains a NUL character"));
    }
    absl::string_view name = source;
    if (!absl::ConsumePrefix(&name, "file://") && absl::StrContains(name, "://")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the source '", PrintableText(source), "' cannot be opened: only paths and file:// URIs inside '",
          folder.string(), "' can be read; copy the data there, or upload it"));
    }
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder / std::string(name), error);
    if (error || !IsInside(path, folder)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the source '", source, "' is not inside '", folder.string(),
                       "', the folder that this server reads pools from (serve --pools)"));
    }
    resolved.push_back(path.string());
  }
  return resolved;
}

}  // namespace fulcrum::pipeline
