#include <stdlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;

absl::Status CopyFile(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (!error) return absl::OkStatus();
  const std::string message = absl::StrCat("cannot copy '", from, "' to '", to, "': ", error.message());
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space, or set TMPDIR to another disk"));
  }
  return absl::FailedPreconditionError(absl::StrCat(message, "; check that both may be accessed"));
}

/// SQLite ignores the write-ahead log of an empty database. One empty page makes it look at the log, whose pages then
/// replace it.
absl::Status AddEmptyPage(const std::string& database) {
  std::ifstream log(database + "-wal", std::ios::binary);
  std::array<unsigned char, 12> header{};
  if (!log.read(reinterpret_cast<char*>(header.data()), header.size())) return absl::OkStatus();
  // The page size is a big-endian number at offset 8 of the log.
  const std::uint32_t page_bytes = std::uint32_t{header[8]} << 24 | std::uint32_t{header[9]} << 16 |
                                   std::uint32_t{header[10]} << 8 | std::uint32_t{header[11]};
  if (page_bytes < 512 || page_bytes > 65536) return absl::OkStatus();
  std::error_code error;
  fs::resize_file(database, page_bytes, error);
  if (!error) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("cannot extend '", database, "': ", error.message()));
}

}  // namespace

absl::StatusOr<DatabaseCopy> DatabaseCopy::Make(const CampaignFolder& folder, const std::string& path) {
  DatabaseCopy copy(path);
  FULCRUM_RETURN_IF_ERROR(CopyFile(folder.database(), path));
  std::error_code error;
  fs::remove(path + "-wal", error);
  const std::string log = folder.database() + "-wal";
  if (!fs::exists(log, error) || fs::file_size(log, error) == 0) return copy;
  FULCRUM_RETURN_IF_ERROR(CopyFile(log, path + "-wal"));
  if (fs::file_size(path, error) == 0) FULCRUM_RETURN_IF_ERROR(AddEmptyPage(path));
  return copy;
}

absl::StatusOr<DatabaseCopy> DatabaseCopy::MakeTemporary(const CampaignFolder& folder) {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "fulcrum-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot create a temporary folder '", name,
                                                      "': ", std::strerror(errno), "; set TMPDIR to one that exists"));
  }
  absl::StatusOr<DatabaseCopy> copy = Make(folder, name + "/campaign.db");
  if (copy.ok()) {
    copy->temporary_folder_ = std::move(name);
  } else {
    fs::remove_all(name, error);
  }
  return copy;
}

DatabaseCopy::DatabaseCopy(DatabaseCopy&& other) noexcept
    : path_(std::exchange(other.path_, {})), temporary_folder_(std::exchange(other.temporary_folder_, {})) {}

DatabaseCopy::~DatabaseCopy() {
  if (path_.empty()) return;
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path_ + suffix, ignored);
  if (!temporary_folder_.empty()) fs::remove_all(temporary_folder_, ignored);
}

}  // namespace fulcrum::storage
