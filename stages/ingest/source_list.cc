#include "stages/ingest/source_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "arrow/filesystem/filesystem.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/reader_registry.h"

namespace fulcrum::ingest {
namespace {

constexpr char kHiveNone[] = "__HIVE_DEFAULT_PARTITION__";

bool IsUri(const std::string& path) {
  return absl::StrContains(path, "://");
}

bool HasWildcard(absl::string_view path) {
  return path.find_first_of("*?[") != absl::string_view::npos;
}

/// A place on a file system.
struct Place {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;  // as the file system knows it
  bool is_uri = false;
};

absl::StatusOr<Place> FindPlace(const std::string& named) {
  Place place;
  place.is_uri = IsUri(named);
  const std::string whole = place.is_uri ? named : std::filesystem::absolute(named).lexically_normal().string();
  FULCRUM_ASSIGN_OR_RETURN(place.file_system, FromArrow(arrow::fs::FileSystemFromUriOrPath(whole, &place.path),
                                                        absl::StrCat("cannot open '", named, "'")));
  while (place.path.size() > 1 && place.path.back() == '/') place.path.pop_back();
  return place;
}

absl::StatusOr<std::string> NameOf(const Place& place, const std::string& path) {
  if (!place.is_uri) return path;
  return FromArrow(place.file_system->MakeUri(path), absl::StrCat("cannot name '", path, "'"));
}

// "%2F" in a folder's name stands for a slash in the value.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                         absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]));
    if (!escaped) {
      plain.push_back(text[i]);
      continue;
    }
    absl::StrAppend(&plain, absl::HexStringToBytes(text.substr(i + 1, 2)));
    i += 2;
  }
  return plain;
}

std::vector<std::pair<std::string, std::string>> PartitionsIn(absl::string_view relative_path) {
  std::vector<std::pair<std::string, std::string>> partitions;
  std::vector<absl::string_view> folders = absl::StrSplit(relative_path, '/');
  folders.pop_back();
  for (absl::string_view folder : folders) {
    const std::size_t equals = folder.find('=');
    if (equals == absl::string_view::npos || equals == 0) continue;
    const std::string value = Unescaped(folder.substr(equals + 1));
    partitions.emplace_back(Unescaped(folder.substr(0, equals)), value == kHiveNone ? "" : value);
  }
  return partitions;
}

bool IsHidden(absl::string_view relative_path) {
  for (absl::string_view name : absl::StrSplit(relative_path, '/')) {
    // A partition may be of a column whose name begins so.
    if (absl::StartsWith(name, ".") || (absl::StartsWith(name, "_") && !absl::StrContains(name, "="))) return true;
  }
  return false;
}

/// The files below a folder that `keeps` accepts by their path relative to it.
template <typename Keeps>
absl::StatusOr<std::vector<SourceFile>> ListBelow(const Place& place, const std::string& folder, const Keeps& keeps) {
  arrow::fs::FileSelector selector;
  selector.base_dir = folder;
  selector.recursive = true;
  FULCRUM_ASSIGN_OR_RETURN(const auto infos, FromArrow(place.file_system->GetFileInfo(selector),
                                                       absl::StrCat("cannot list the folder '", folder, "'")));
  std::vector<SourceFile> files;
  for (const arrow::fs::FileInfo& info : infos) {
    if (!info.IsFile()) continue;
    absl::string_view relative = info.path();
    relative.remove_prefix(std::min(folder.size(), relative.size()));
    while (absl::StartsWith(relative, "/")) relative.remove_prefix(1);
    if (IsHidden(relative) || !keeps(std::string(relative))) continue;
    FULCRUM_ASSIGN_OR_RETURN(std::string name, NameOf(place, info.path()));
    files.push_back({std::move(name), PartitionsIn(relative)});
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

absl::StatusOr<std::vector<SourceFile>> ListGlob(const Place& place) {
  const std::size_t wildcard = place.path.find_first_of("*?[");
  const std::size_t slash = place.path.rfind('/', wildcard);
  const std::string folder = slash == std::string::npos || slash == 0 ? "/" : place.path.substr(0, slash);
  const std::string pattern = place.path.substr(slash == std::string::npos ? 0 : slash + 1);
  return ListBelow(place, folder, [&](const std::string& relative) {
    return fnmatch(pattern.c_str(), relative.c_str(), FNM_PATHNAME) == 0;
  });
}

absl::Status CheckSamePartitions(const std::vector<SourceFile>& files) {
  for (const SourceFile& file : files) {
    const auto same_column = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (std::equal(file.partitions.begin(), file.partitions.end(), files[0].partitions.begin(),
                   files[0].partitions.end(), same_column)) {
      continue;
    }
    return absl::DataLossError(absl::StrCat("'", files[0].path, "' and '", file.path,
                                            "' are partitioned in different ways; every file must lie below the same "
                                            "column=value folders"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SourceFile>> ListOne(const std::string& named) {
  FULCRUM_ASSIGN_OR_RETURN(const Place place, FindPlace(named));
  FULCRUM_ASSIGN_OR_RETURN(const auto info, FromArrow(place.file_system->GetFileInfo(place.path),
                                                      absl::StrCat("cannot open '", named, "'")));
  if (info.IsFile()) return std::vector<SourceFile>{{named}};
  std::vector<SourceFile> files;
  if (info.IsDirectory()) {
    FULCRUM_ASSIGN_OR_RETURN(files, ListBelow(place, place.path, HasReader));
  } else if (HasWildcard(named)) {
    FULCRUM_ASSIGN_OR_RETURN(files, ListGlob(place));
  } else {
    return absl::NotFoundError(absl::StrCat("there is no file '", named, "'; check the path"));
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", named, "' has no file that could be read (", KnownEndings(), "); check the path"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckSamePartitions(files));
  return files;
}

}  // namespace

absl::StatusOr<std::vector<SourceFile>> ListSources(const std::vector<std::string>& named) {
  std::vector<SourceFile> all;
  for (const std::string& name : named) {
    FULCRUM_ASSIGN_OR_RETURN(std::vector<SourceFile> files, ListOne(name));
    std::move(files.begin(), files.end(), std::back_inserter(all));
  }
  if (all.empty()) return absl::InvalidArgumentError("no source is named; name a file, a folder or a glob");
  FULCRUM_RETURN_IF_ERROR(CheckSamePartitions(all));
  return all;
}

}  // namespace fulcrum::ingest
