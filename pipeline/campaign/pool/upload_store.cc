#include "pipeline/campaign/pool/upload_store.h"

#include <fcntl.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::pipeline {
namespace {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using google::protobuf::util::TimeUtil;

constexpr char kPrefix[] = "upload:";
constexpr char kDescription[] = "/upload.json";
constexpr std::size_t kMostUploads = 1000;
constexpr std::size_t kLongestFileName = 255;
constexpr std::size_t kIdDigits = 24;
// Left on the disk for labels.
constexpr std::uintmax_t kFreeBytes = std::uintmax_t{256} << 20;
constexpr std::chrono::seconds kLongestBetweenRemovals{600};

/// Not a number that counts up: clients that confuse two servers get NotFound, not another file.
std::string NewId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x", device(), device(), device());
}

bool IsId(const std::string& id) {
  return id.size() == kIdDigits &&
         std::all_of(id.begin(), id.end(), [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

/// ".csv.gz" of "my.rows.csv.gz"; empty if no reader knows it. The rest of a name may have anything in it, such as the
/// wildcards of a glob, so only this part becomes the name of a file here.
std::string EndingOf(const std::string& file_name) {
  for (std::size_t dot = file_name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = file_name.rfind('.', dot - 1)) {
    const std::string ending = absl::AsciiStrToLower(file_name.substr(dot));
    if (ingest::HasReader("rows" + ending)) return ending;
  }
  return "";
}

absl::Status CheckFileName(const std::string& name) {
  if (name.empty() || name.size() > kLongestFileName || name.find_first_of(std::string_view("/\0", 2)) != name.npos) {
    return absl::InvalidArgumentError(absl::StrCat("the file name '", PrintableText(name.substr(0, kLongestFileName)),
                                                   "' must have 1 to ", kLongestFileName,
                                                   " bytes and no folder in it"));
  }
  if (!EndingOf(name).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot tell the format of '", PrintableText(name),
                                                 "' by its ending; known are ", ingest::KnownEndings(),
                                                 " (text and IPC streams also with .gz or .zst)"));
}

absl::Status NoSuchUpload(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no upload '", PrintableText(id.substr(0, 100)),
                   "'; uploads are removed when they are not used for some time: send it again"));
}

absl::Status DiskError(const std::string& doing) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", doing, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; delete other uploads, or make room on the server"));
  }
  return absl::UnavailableError(message);
}

/// Reads what is at `offset` of a file; shorter at its end.
absl::StatusOr<std::string> ReadAt(const std::string& path, std::int64_t offset, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string read(bytes, '\0');
  file.seekg(offset);
  file.read(read.data(), static_cast<std::streamsize>(bytes));
  if (file.bad() || !file.is_open()) return absl::UnavailableError("cannot read the upload; try again");
  read.resize(static_cast<std::size_t>(file.gcount()));
  return read;
}

}  // namespace

struct UploadStore::Entry {
  std::mutex mutex;   ///< of writing; taken before the store's
  v1::Upload upload;  ///< without received_bytes and expires_at
  v1::CreateUploadRequest request;
  std::string path;           ///< of the bytes
  std::int64_t received = 0;  ///< guarded by the store's mutex, as `upload`
  storage::Time used = {};    ///< likewise
  Crc32 crc;                  ///< of the first `crc_bytes`; guarded by `mutex`
  std::int64_t crc_bytes = 0;
  std::shared_ptr<const void> hold = std::make_shared<const int>();

  std::int64_t size() const { return upload.size_bytes(); }
  bool complete() const { return upload.state() == v1::UPLOAD_STATE_COMPLETE; }
  bool in_use() const { return hold.use_count() > 1; }
};

UploadStore::UploadStore(std::string folder, UploadLimits limits, const storage::Clock* clock)
    : folder_(std::move(folder)), limits_(limits), clock_(clock == nullptr ? own_clock_ : *clock) {}

absl::StatusOr<std::unique_ptr<UploadStore>> UploadStore::Open(const std::string& data_folder, UploadLimits limits,
                                                               const storage::Clock* clock) {
  std::unique_ptr<UploadStore> store(new UploadStore(data_folder + "/uploads", limits, clock));
  FULCRUM_RETURN_IF_ERROR(store->Load());
  store->remover_ = std::jthread([&it = *store](const std::stop_token& stop) { it.RemoveAgainAndAgain(stop); });
  return store;
}

absl::Status UploadStore::Load() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error) fs::permissions(folder_, fs::perms::owner_all, error);
  const fs::directory_iterator folders(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read '", folder_, "': ", error.message()));
  for (const auto& folder : folders) {
    const std::string id = folder.path().filename().string();
    std::shared_ptr<Entry> entry = IsId(id) ? LoadEntry(id) : nullptr;
    if (entry != nullptr) {
      entries_.emplace(id, std::move(entry));
    } else {
      // A process was killed while it created or deleted this one.
      fs::remove_all(folder.path(), error);
    }
  }
  RemoveExpired();
  return absl::OkStatus();
}

std::shared_ptr<UploadStore::Entry> UploadStore::LoadEntry(const std::string& id) const {
  std::ifstream file(FolderOf(id) + kDescription);
  std::string upload, request;
  std::getline(file, upload);
  std::getline(file, request);
  const auto entry = std::make_shared<Entry>();
  if (!ParseStoredText(upload, entry->upload).ok() || !ParseStoredText(request, entry->request).ok()) return nullptr;
  entry->path = absl::StrCat(FolderOf(id), "/rows", EndingOf(entry->upload.file_name()));
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(entry->path, error));
  const auto written = error ? fs::file_time_type() : fs::last_write_time(entry->path, error);
  if (error) return nullptr;
  entry->received = std::min(bytes, entry->size());
  if (entry->complete() && entry->received < entry->size()) return nullptr;
  // A file from the future was written while the clock was ahead.
  entry->used = std::min(
      clock_.Now(), std::chrono::time_point_cast<storage::Time::duration>(std::chrono::file_clock::to_sys(written)));
  return entry;
}

v1::Upload UploadStore::Describe(const Entry& entry) const {
  v1::Upload upload = entry.upload;
  upload.set_received_bytes(entry.received);
  *upload.mutable_expires_at() = TimeUtil::SecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::seconds>((entry.used + limits_.keep_time).time_since_epoch()).count());
  return upload;
}

absl::Status UploadStore::Save(const Entry& entry) const {
  return ReplaceFile(FolderOf(entry.upload.id()) + kDescription,
                     absl::StrCat(StoredText(entry.upload), "\n", StoredText(entry.request), "\n"));
}

absl::StatusOr<std::shared_ptr<UploadStore::Entry>> UploadStore::Find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return NoSuchUpload(id);
  return found->second;
}

absl::StatusOr<std::shared_ptr<UploadStore::Entry>> UploadStore::FindRepeated(const v1::CreateUploadRequest& request,
                                                                              const std::string& by) const {
  if (request.request_id().empty()) return nullptr;
  for (const auto& [id, entry] : entries_) {
    if (entry->request.request_id() != request.request_id() || entry->upload.created_by() != by) continue;
    if (MessageDifferencer::Equals(entry->request, request)) return entry;
    return absl::AlreadyExistsError(absl::StrCat("request id '", request.request_id(),
                                                 "' was used for another upload (", id,
                                                 "); make a new id for every new request"));
  }
  return nullptr;
}

absl::Status UploadStore::CheckRoom(std::int64_t bytes) const {
  std::int64_t used = 0;
  std::uintmax_t outstanding = 0;
  for (const auto& [id, entry] : entries_) {
    used += entry->size();
    outstanding += static_cast<std::uintmax_t>(entry->size() - entry->received);
  }
  if (entries_.size() >= kMostUploads || used + bytes > limits_.most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this upload of ", bytes >> 20, " MiB does not fit: the server takes uploads of ",
                     limits_.most_bytes >> 20, " MiB together, at most ", kMostUploads, ", and has ", entries_.size(),
                     " of ", used >> 20, " MiB; delete some, or raise uploads.limit in its configuration"));
  }
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  if (error || space.available >= outstanding + static_cast<std::uintmax_t>(bytes) + kFreeBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("this upload of ", bytes >> 20,
                                                   " MiB does not fit on the server's disk, which has ",
                                                   space.available >> 20, " MiB left; make room"));
}

absl::StatusOr<v1::Upload> UploadStore::Create(const v1::CreateUploadRequest& request, const std::string& by) {
  FULCRUM_RETURN_IF_ERROR(CheckFileName(request.file_name()));
  RemoveExpired();
  const std::scoped_lock lock(mutex_);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindRepeated(request, by));
  if (repeated != nullptr) return Describe(*repeated);
  FULCRUM_RETURN_IF_ERROR(CheckRoom(request.size_bytes()));
  const auto entry = std::make_shared<Entry>();
  entry->request = request;
  entry->used = clock_.Now();
  v1::Upload& upload = entry->upload;
  do {
    upload.set_id(NewId());
  } while (entries_.contains(upload.id()));
  upload.set_file_name(request.file_name());
  upload.set_size_bytes(request.size_bytes());
  upload.set_state(v1::UPLOAD_STATE_RECEIVING);
  *upload.mutable_created_at() = TimeUtil::GetCurrentTime();
  upload.set_created_by(by);
  entry->path = absl::StrCat(FolderOf(upload.id()), "/rows", EndingOf(request.file_name()));
  std::error_code error;
  absl::Cleanup remove = [&] { fs::remove_all(FolderOf(upload.id()), error); };
  if (!fs::create_directory(FolderOf(upload.id()), error)) {
    return absl::UnavailableError(absl::StrCat("cannot make a folder for the upload: ", error.message()));
  }
  const int file = open(entry->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return DiskError("create the upload");
  close(file);
  // On disk before it is answered: a restart must not forget it.
  FULCRUM_RETURN_IF_ERROR(Save(*entry));
  FULCRUM_RETURN_IF_ERROR(SyncFolder(folder_));
  std::move(remove).Cancel();
  entries_.emplace(upload.id(), entry);
  return Describe(*entry);
}

absl::Status UploadStore::Append(Entry& entry, std::string_view bytes) const {
  const int file = open(entry.path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return DiskError("write the upload");
  const absl::Cleanup close_file = [file] { close(file); };
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written =
        pwrite(file, bytes.data() + done, bytes.size() - done, entry.received + static_cast<std::int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const absl::Status status = DiskError("write the upload");
      // What was written of the chunk is not counted; after a restart the size of the file is what was received.
      if (ftruncate(file, entry.received) != 0) return DiskError("shorten the upload");
      return status;
    }
    done += static_cast<std::size_t>(written);
  }
  if (entry.crc_bytes == entry.received) {
    entry.crc.Add(bytes);
    entry.crc_bytes += static_cast<std::int64_t>(bytes.size());
  }
  return absl::OkStatus();
}

absl::Status UploadStore::Complete(Entry& entry, const std::string& checksum) const {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  // What an earlier process received.
  while (entry.crc_bytes < entry.size()) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string piece, ReadAt(entry.path, entry.crc_bytes, kPiece));
    if (piece.empty()) return absl::UnavailableError("cannot read the upload; try again");
    entry.crc.Add(piece);
    entry.crc_bytes += static_cast<std::int64_t>(piece.size());
  }
  const std::string found = entry.crc.ToText();
  const bool matches = found == absl::AsciiStrToLower(checksum);
  if (entry.complete()) {
    if (matches) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("the upload is complete, and its checksum is ", found));
  }
  if (!matches) {
    if (truncate(entry.path.c_str(), 0) != 0) return DiskError("empty the upload");
    entry.crc = Crc32();
    entry.crc_bytes = 0;
    {
      const std::scoped_lock lock(mutex_);
      entry.received = 0;
    }
    return absl::DataLossError(absl::StrCat("the checksum of what was received is ", found, ", not ",
                                            PrintableText(checksum.substr(0, 40)),
                                            "; the upload is empty now: send it again from the beginning"));
  }
  FULCRUM_RETURN_IF_ERROR(SyncFile(entry.path));
  const std::scoped_lock lock(mutex_);
  entry.upload.set_state(v1::UPLOAD_STATE_COMPLETE);
  const absl::Status saved = Save(entry);
  if (!saved.ok()) entry.upload.set_state(v1::UPLOAD_STATE_RECEIVING);
  return saved;
}

absl::StatusOr<v1::Upload> UploadStore::Write(const v1::WriteUploadRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(request.upload()));
  const std::scoped_lock writing(entry->mutex);
  const std::int64_t offset = request.offset_bytes();
  const auto end = offset + static_cast<std::int64_t>(request.chunk().size());
  if (offset > entry->received || end > entry->size()) {
    return absl::OutOfRangeError(absl::StrCat("bytes ", offset, " to ", end, " cannot be written: ", entry->received,
                                              " of ", entry->size(), " bytes are there; continue at ",
                                              entry->received));
  }
  const auto repeated = static_cast<std::size_t>(std::min(entry->received, end) - offset);
  if (repeated > 0) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string before, ReadAt(entry->path, offset, repeated));
    if (before != std::string_view(request.chunk()).substr(0, repeated)) {
      return absl::AlreadyExistsError(
          absl::StrCat("other bytes were written at ", offset, "; create a new upload to send another file"));
    }
  }
  if (end > entry->received) {
    FULCRUM_RETURN_IF_ERROR(Append(*entry, std::string_view(request.chunk()).substr(repeated)));
  }
  {
    const std::scoped_lock lock(mutex_);
    entry->received = std::max(entry->received, end);
    entry->used = clock_.Now();
  }
  if (!request.checksum().empty()) {
    if (entry->received < entry->size()) {
      return absl::FailedPreconditionError(absl::StrCat("the checksum belongs into the last request: ", entry->received,
                                                        " of ", entry->size(), " bytes are there"));
    }
    FULCRUM_RETURN_IF_ERROR(Complete(*entry, request.checksum()));
  }
  const std::scoped_lock lock(mutex_);
  return Describe(*entry);
}

absl::StatusOr<v1::Upload> UploadStore::Get(const std::string& id) const {
  FULCRUM_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(id));
  const std::scoped_lock lock(mutex_);
  return Describe(*entry);
}

std::vector<v1::Upload> UploadStore::List(const std::string& after, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  std::vector<v1::Upload> uploads;
  for (auto entry = entries_.upper_bound(after); entry != entries_.end() && uploads.size() < most; ++entry) {
    uploads.push_back(Describe(*entry->second));
  }
  return uploads;
}

absl::Status UploadStore::Delete(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return absl::OkStatus();
  if (found->second->in_use()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a campaign is being created from upload '", id, "'; delete it afterwards"));
  }
  std::error_code error;
  // Without its description it is removed by the next process, if this one does not come to it.
  fs::remove(FolderOf(id) + kDescription, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot delete the upload: ", error.message()));
  fs::remove_all(FolderOf(id), error);
  entries_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<UploadedFile> UploadStore::Use(const std::string& id) {
  FULCRUM_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(id));
  const std::scoped_lock lock(mutex_);
  if (!entry->complete()) {
    return absl::FailedPreconditionError(absl::StrCat("upload '", id, "' is not complete: ", entry->received, " of ",
                                                      entry->size(), " bytes are there, and no checksum"));
  }
  entry->used = clock_.Now();
  std::error_code ignored;
  fs::last_write_time(entry->path, fs::file_time_type::clock::now(), ignored);
  return UploadedFile{.path = entry->path, .file_name = entry->upload.file_name(), .hold = entry->hold};
}

void UploadStore::RemoveExpired() {
  const storage::Time now = clock_.Now();
  std::vector<std::string> expired;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (now - entry->used > limits_.keep_time && !entry->in_use()) expired.push_back(id);
    }
  }
  for (const std::string& id : expired) {
    const absl::Status deleted = Delete(id);
    Log(deleted.ok() ? LogLevel::kInfo : LogLevel::kWarning, "expired upload removed",
        {{"upload", id}, {"status", deleted.ToString()}});
  }
}

void UploadStore::RemoveAgainAndAgain(const std::stop_token& stop) {
  const auto pause = std::min<std::chrono::milliseconds>(limits_.keep_time, kLongestBetweenRemovals) / 4;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    stopping_.wait_for(lock, stop, pause, [] { return false; });
    lock.unlock();
    RemoveExpired();
    lock.lock();
  }
}

std::string UploadIdOf(const std::string& source) {
  return absl::StartsWith(source, kPrefix) ? source.substr(sizeof(kPrefix) - 1) : "";
}

}  // namespace fulcrum::pipeline
