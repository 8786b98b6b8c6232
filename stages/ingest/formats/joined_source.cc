#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "arrow/array.h"
#include "arrow/array/util.h"
#include "arrow/filesystem/filesystem.h"
#include "arrow/record_batch.h"
#include "arrow/scalar.h"
#include "arrow/type.h"
#include "arrow/util/key_value_metadata.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

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
  FULCRUM_RETURN_IF_ERROR(CheckScheme(named));
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
  if (IsDescriptorPath(named)) return std::vector<SourceFile>{{named}};
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

namespace {

constexpr char kPartitionMark[] = "fulcrum.partition";

std::shared_ptr<arrow::Field> PartitionField(const std::string& name) {
  return arrow::field(name, arrow::binary(), /*nullable=*/true, arrow::key_value_metadata({kPartitionMark}, {"yes"}));
}

class JoinedSource final : public TableSource {
 public:
  JoinedSource(std::string title, std::vector<SourceFile> files, TableRequest request)
      : title_(std::move(title)), files_(std::move(files)), request_(std::move(request)) {}

  absl::Status Open() {
    FULCRUM_RETURN_IF_ERROR(OpenCurrent());
    all_names_ = current_->all_column_names();
    arrow::FieldVector fields = current_->schema()->fields();
    for (std::size_t i = 0; i < files_[0].partitions.size(); ++i) {
      const std::string& name = files_[0].partitions[i].first;
      if (std::find(all_names_.begin(), all_names_.end(), name) != all_names_.end()) {
        return absl::DataLossError(absl::StrCat(title_, ": the column '", name,
                                                "' is in the files and in their folders' names; rename one of them"));
      }
      all_names_.push_back(name);
      const bool wanted = request_.columns.empty() ||
                          std::find(request_.columns.begin(), request_.columns.end(), name) != request_.columns.end();
      if (!wanted) continue;
      partitions_.push_back(i);
      fields.push_back(PartitionField(name));
    }
    schema_ = arrow::schema(std::move(fields));
    names_ = schema_->field_names();
    return absl::OkStatus();
  }

  const std::string& path() const override { return title_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  const std::string& current_file() const override { return files_[position_].path; }
  /// The files after the current one are not known yet, so it is at least this many.
  std::optional<std::int64_t> ClaimedRows() const override {
    const std::optional<std::int64_t> here = current_->ClaimedRows();
    if (!here) return std::nullopt;
    return static_cast<std::int64_t>(first_rows_.back()) + *here;
  }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    for (;;) {
      FULCRUM_ASSIGN_OR_RETURN(const auto batch, current_->Next());
      if (batch != nullptr) {
        rows_ += static_cast<std::uint64_t>(batch->num_rows());
        return WithPartitions(*batch);
      }
      FULCRUM_RETURN_IF_ERROR(CheckUnchanged());
      if (position_ + 1 == files_.size()) return std::shared_ptr<arrow::RecordBatch>();
      ++position_;
      FULCRUM_RETURN_IF_ERROR(OpenCurrent());
      FULCRUM_RETURN_IF_ERROR(CheckSameColumns());
    }
  }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) places.push_back(PlaceOfRow(row));
    return places;
  }

 private:
  absl::Status OpenCurrent() {
    first_rows_.push_back(rows_);
    FULCRUM_ASSIGN_OR_RETURN(stamp_, StampOf(files_[position_].path));
    FULCRUM_ASSIGN_OR_RETURN(current_, OpenTable(files_[position_].path, request_));
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const {
    FULCRUM_ASSIGN_OR_RETURN(const FileStamp now, StampOf(files_[position_].path));
    if (now == stamp_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "'", files_[position_].path, "' changed while it was being read; run again when no program writes to it"));
  }

  absl::Status CheckSameColumns() const {
    const std::shared_ptr<arrow::Schema> here = current_->schema();
    const int expected = schema_->num_fields() - static_cast<int>(partitions_.size());
    bool same = here->num_fields() == expected;
    for (int i = 0; same && i < expected; ++i) {
      same = here->field(i)->name() == schema_->field(i)->name() &&
             here->field(i)->type()->Equals(*schema_->field(i)->type());
    }
    if (same) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("'", files_[position_].path, "' has other columns, or columns of other ",
                                            "types, than '", files_[0].path,
                                            "'; files that are read together must have the same ones in the same "
                                            "order"));
  }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> WithPartitions(const arrow::RecordBatch& batch) const {
    arrow::ArrayVector columns = batch.columns();
    for (std::size_t i : partitions_) {
      const arrow::BinaryScalar value(files_[position_].partitions[i].second);
      FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), FromArrow(arrow::MakeArrayFromScalar(value, batch.num_rows()),
                                                                 absl::StrCat("cannot read '", title_, "'")));
    }
    return arrow::RecordBatch::Make(schema_, batch.num_rows(), std::move(columns));
  }

  std::string PlaceOfRow(std::uint64_t row) const {
    const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
    const auto file = static_cast<std::size_t>(after - first_rows_.begin()) - 1;
    const std::uint64_t row_in_file[] = {row - first_rows_[file]};
    if (files_.size() == 1) return current_->PlacesOfRows(row_in_file)[0];
    if (file == position_) return absl::StrCat(files_[file].path, ", ", current_->PlacesOfRows(row_in_file)[0]);
    const auto source = OpenTable(files_[file].path, request_);
    return absl::StrCat(files_[file].path, ", ",
                        source.ok() ? (*source)->PlacesOfRows(row_in_file)[0] : absl::StrCat("row ", row_in_file[0]));
  }

  std::string title_;
  std::vector<SourceFile> files_;
  TableRequest request_;
  std::vector<std::string> all_names_;
  std::vector<std::string> names_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::size_t> partitions_;  // those that are wanted
  std::size_t position_ = 0;
  FileStamp stamp_;  // of the file that is being read, before that began
  std::unique_ptr<TableSource> current_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> first_rows_;  // by file that has been opened
};

}  // namespace

bool IsPartitionField(const arrow::Field& field) {
  return field.metadata() != nullptr && field.metadata()->Contains(kPartitionMark);
}

absl::StatusOr<std::unique_ptr<TableSource>> OpenJoined(std::string title, std::vector<SourceFile> files,
                                                        const TableRequest& request) {
  auto source = std::make_unique<JoinedSource>(std::move(title), std::move(files), request);
  FULCRUM_RETURN_IF_ERROR(source->Open());
  return source;
}

}  // namespace fulcrum::ingest
