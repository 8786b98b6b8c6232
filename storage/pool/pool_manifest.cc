#include "storage/pool/pool_manifest.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

constexpr absl::string_view kFirstLine = "fulcrum-pool 1";
constexpr absl::string_view kChecksumWord = "checksum ";

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the pool's manifest is damaged: ", what, "; import the pool again"));
}

/// A file name from the manifest must stay in its folder.
bool IsPlainName(absl::string_view name) {
  return !name.empty() && name[0] != '.' && !absl::StrContains(name, "/");
}

absl::StatusOr<std::int64_t> ParseCount(absl::string_view text) {
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return Damaged(absl::StrCat("'", text, "' is not a count"));
  return value;
}

absl::Status TakeBlock(const std::vector<absl::string_view>& words, PoolManifest& manifest) {
  if (words.size() != 3 || manifest.parts.empty()) return Damaged("a block without a part");
  PoolBlockRecord block;
  FULCRUM_ASSIGN_OR_RETURN(block.rows, ParseCount(words[1]));
  FULCRUM_ASSIGN_OR_RETURN(block.checksum, ParseChecksum(words[2]));
  manifest.parts.back().blocks.push_back(block);
  return absl::OkStatus();
}

absl::Status TakePart(const std::vector<absl::string_view>& words, PoolManifest& manifest) {
  if (words.size() != 3 || !IsPlainName(words[1])) return Damaged("a part without a file");
  PoolPart part;
  part.file = std::string(words[1]);
  FULCRUM_ASSIGN_OR_RETURN(part.bytes, ParseCount(words[2]));
  manifest.parts.push_back(std::move(part));
  return absl::OkStatus();
}

absl::Status TakeLine(absl::string_view line, PoolManifest& manifest) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words[0] == "block") return TakeBlock(words, manifest);
  if (words[0] == "part") return TakePart(words, manifest);
  if (words.size() != 2) return Damaged(absl::StrCat("'", line, "' means nothing"));
  if (words[0] == "statistics" || words[0] == "rejected_rows_in") {
    if (!IsPlainName(words[1])) return Damaged("a file outside of its folder");
    if (words[0] == "statistics") manifest.statistics_file = std::string(words[1]);
    if (words[0] == "rejected_rows_in") manifest.rejected_files.emplace_back(words[1]);
    return absl::OkStatus();
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t count, ParseCount(words[1]));
  if (words[0] == "features") manifest.features = count;
  if (words[0] == "sparse") manifest.sparse = count != 0;
  if (words[0] == "ids") manifest.has_ids = count != 0;
  if (words[0] == "rejected") manifest.rejected = count;
  return absl::OkStatus();
}

}  // namespace

std::int64_t PoolPart::rows() const {
  std::int64_t total = 0;
  for (const PoolBlockRecord& block : blocks) total += block.rows;
  return total;
}

std::int64_t PoolManifest::rows() const {
  std::int64_t total = 0;
  for (const PoolPart& part : parts) total += part.rows();
  return total;
}

std::string FormatManifest(const PoolManifest& manifest) {
  std::string text = absl::StrCat(kFirstLine, "\nfeatures ", manifest.features, "\nsparse ", manifest.sparse ? 1 : 0,
                                  "\nids ", manifest.has_ids ? 1 : 0, "\nrejected ", manifest.rejected, "\nstatistics ",
                                  manifest.statistics_file, "\n");
  for (const std::string& file : manifest.rejected_files) absl::StrAppend(&text, "rejected_rows_in ", file, "\n");
  for (const PoolPart& part : manifest.parts) {
    absl::StrAppend(&text, "part ", part.file, " ", part.bytes, "\n");
    for (const PoolBlockRecord& block : part.blocks) {
      absl::StrAppend(&text, "block ", block.rows, " ", ChecksumText(block.checksum), "\n");
    }
  }
  absl::StrAppend(&text, kChecksumWord, ChecksumText(Fingerprint(text.data(), text.size())), "\n");
  return text;
}

absl::StatusOr<PoolManifest> ParseManifest(const std::string& text) {
  if (!absl::StartsWith(text, absl::StrCat(kFirstLine, "\n"))) {
    return absl::DataLossError(absl::StrCat("the pool's manifest does not begin with '", kFirstLine,
                                            "': it is damaged, or of a newer version of the program"));
  }
  const std::size_t end = text.rfind(std::string(kChecksumWord));
  if (end == std::string::npos) return Damaged("its checksum is missing");
  const absl::string_view rest = absl::string_view(text).substr(end + kChecksumWord.size());
  FULCRUM_ASSIGN_OR_RETURN(const std::uint64_t checksum, ParseChecksum(rest.substr(0, rest.find('\n'))));
  if (checksum != Fingerprint(text.data(), end)) return Damaged("its checksum does not fit");
  PoolManifest manifest;
  const absl::string_view body = absl::string_view(text).substr(kFirstLine.size() + 1, end - kFirstLine.size() - 1);
  for (absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    FULCRUM_RETURN_IF_ERROR(TakeLine(line, manifest));
  }
  return manifest;
}

absl::StatusOr<PoolManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kPoolManifestName);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("'", folder, "' is not an imported pool: it has no '", kPoolManifestName, "'; import it again"));
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto manifest = ParseManifest(text);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(), absl::StrCat(folder, ": ", manifest.status().message()));
}

absl::Status WriteManifest(const std::string& folder, const PoolManifest& manifest) {
  return ReplaceFile(absl::StrCat(folder, "/", kPoolManifestName), FormatManifest(manifest));
}

bool IsPoolFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(path) / kPoolManifestName, ignored);
}

namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const PoolManifest& manifest) {
  std::vector<std::string> files = manifest.rejected_files;
  files.push_back(manifest.statistics_file);
  for (const PoolPart& part : manifest.parts) files.push_back(part.file);
  return files;
}

absl::Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  // Not across file systems, and not of another user's files.
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot copy '", from, "' to '", to, "': ", error.message(),
                                               "; check that it is there, and that there is room"));
  }
  // A link too: the process that wrote the file may not have synced it.
  return SyncFile(to);
}

}  // namespace

absl::Status CopyPool(const std::string& from, const std::string& to) {
  FULCRUM_ASSIGN_OR_RETURN(const PoolManifest manifest, ReadManifest(from));
  const std::string work_folder = absl::StrCat(to, ".importing");
  std::error_code error;
  fs::remove_all(work_folder, error);
  fs::create_directories(work_folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot make the folder '", work_folder, "': ", error.message()));
  }
  const absl::Cleanup remove_work = [&] { fs::remove_all(work_folder, error); };
  for (const std::string& file : FilesOf(manifest)) {
    FULCRUM_RETURN_IF_ERROR(LinkOrCopy(absl::StrCat(from, "/", file), absl::StrCat(work_folder, "/", file)));
  }
  FULCRUM_RETURN_IF_ERROR(WriteManifest(work_folder, manifest));
  fs::rename(work_folder, to, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot put '", to, "' in its place: ", error.message()));
  return SyncFolder(fs::absolute(to).parent_path().string());
}

}  // namespace fulcrum::storage
