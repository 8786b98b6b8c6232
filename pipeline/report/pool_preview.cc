#include <arrow/api.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/report/reports.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/leverage/leverage_engine.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostRows = 20'000;
constexpr std::size_t kExamples = 5;
constexpr std::size_t kLongestExample = 200;
constexpr std::size_t kMostDistinct = 1000;
constexpr std::size_t kMostClasses = 100;
constexpr std::size_t kFewRows = 20;

/// What the rows that were read say about a column.
struct Seen {
  std::vector<std::string> examples = {};
  std::set<std::string> distinct = {};
  std::map<std::string, std::int64_t> counts = {};  ///< of the label column
  std::int64_t empty = 0;
  bool numeric = true;
  std::string not_a_number = {};  ///< the first one
};

bool IsNumeric(const arrow::DataType& type) {
  if (arrow::is_integer(type.id()) || arrow::is_floating(type.id())) return true;
  if (!arrow::is_list_like(type.id())) return false;
  return IsNumeric(*static_cast<const arrow::BaseListType&>(type).value_type());
}

bool IsText(const arrow::DataType& type) {
  return arrow::is_base_binary_like(type.id());
}

/// Cut at the beginning of a character, with a sign that it was cut.
std::string Shortened(const std::string& text) {
  if (text.size() <= kLongestExample) return text;
  std::size_t end = kLongestExample;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

/// Bytes that are not text, such as those of an image.
bool IsUtf8(const arrow::Array& column) {
  return column.type_id() == arrow::Type::STRING || column.type_id() == arrow::Type::LARGE_STRING;
}

absl::StatusOr<std::vector<std::string>> TextsOf(const arrow::Array& column) {
  std::vector<std::string> texts;
  if (ingest::CanBeText(*column.type())) {
    FULCRUM_RETURN_IF_ERROR(ingest::AppendTextColumn(column, texts));
    return texts;
  }
  for (std::int64_t i = 0; i < column.length(); ++i) {
    const auto value = column.GetScalar(i);
    texts.push_back(value.ok() ? (*value)->ToString() : "");
  }
  return texts;
}

absl::Status Look(const arrow::Array& column, bool is_label, Seen& seen) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(column));
  const bool parse = IsText(*column.type());
  if (!parse) seen.numeric = seen.numeric && IsNumeric(*column.type());
  for (const std::string& text : texts) {
    if (seen.examples.size() < kExamples) {
      const bool bytes = parse && text.empty() && !IsUtf8(column);
      seen.examples.push_back(bytes ? "(bytes)" : Shortened(text));
    }
    if (seen.distinct.size() < kMostDistinct) seen.distinct.insert(text.substr(0, kLongestExample));
    if (is_label && (seen.counts.size() < kMostDistinct || seen.counts.contains(text))) ++seen.counts[text];
    if (text.empty()) ++seen.empty;
    double number = 0;
    if (parse && !absl::SimpleAtod(text, &number)) {
      if (seen.not_a_number.empty()) seen.not_a_number = Shortened(text);
      seen.numeric = false;
    }
  }
  return absl::OkStatus();
}

/// Columns that the request names and the table does not have.
std::vector<std::string> Missing(const v1::GetPoolPreviewRequest& request, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name :
       {request.id_column(), request.label_column(), request.payload_column(), request.cost_column()}) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) missing.push_back(name);
  }
  for (const std::string& name : request.ignored_columns()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) missing.push_back(name);
  }
  return missing;
}

/// With the columns that cannot be features ignored, too.
ingest::ColumnOptions WithoutUnfit(const arrow::Schema& schema, ingest::ColumnOptions options) {
  for (const auto& field : schema.fields()) {
    const std::string& name = field->name();
    const bool named = name == options.id || name == options.label || name == options.cost || name == options.payload ||
                       name == "id" || name == "label";
    if (!named && !ingest::CanBeFeature(*field->type())) options.ignored.push_back(name);
  }
  return options;
}

v1::ColumnRole RoleOf(const ingest::ColumnRoles& roles, int column) {
  if (column == roles.id) return v1::COLUMN_ROLE_ID;
  if (column == roles.label) return v1::COLUMN_ROLE_LABEL;
  if (column == roles.payload) return v1::COLUMN_ROLE_PAYLOAD;
  if (column == roles.cost) return v1::COLUMN_ROLE_COST;
  for (const ingest::FeaturePart& part : roles.parts) {
    if (part.column == column || part.values_column == column) return v1::COLUMN_ROLE_FEATURE;
  }
  return v1::COLUMN_ROLE_UNSPECIFIED;
}

void WarnAboutColumn(const v1::PoolColumn& column, const Seen& seen, std::int64_t rows,
                     v1::GetPoolPreviewResponse& preview) {
  const std::string name = absl::StrCat("column '", column.name(), "'");
  if (column.role() == v1::COLUMN_ROLE_FEATURE && !seen.numeric) {
    preview.add_warnings(absl::StrCat(name, " would be a feature, and its values are not numbers",
                                      seen.not_a_number.empty() ? "" : ", such as '" + seen.not_a_number + "'",
                                      "; give it another role, or do not use it"));
  } else if (column.role() == v1::COLUMN_ROLE_FEATURE && seen.distinct.size() == 1 && rows > 1) {
    preview.add_warnings(absl::StrCat(name, " has the same value in all rows that were read"));
  } else if (column.role() == v1::COLUMN_ROLE_ID && seen.distinct.size() < static_cast<std::size_t>(rows) &&
             seen.distinct.size() < kMostDistinct) {
    preview.add_warnings(absl::StrCat(name, " has the role of the id, and values repeat"));
  } else if (column.role() == v1::COLUMN_ROLE_PAYLOAD && seen.empty > 0 &&
             !absl::StrContains(column.type(), "binary")) {
    preview.add_warnings(absl::StrCat(name, " has nothing to show in ", seen.empty, " of ", rows, " rows"));
  }
}

void WarnAboutPool(v1::GetPoolPreviewResponse& preview) {
  const auto has = [&](v1::ColumnRole role) {
    return std::any_of(preview.columns().begin(), preview.columns().end(),
                       [&](const v1::PoolColumn& column) { return column.role() == role; });
  };
  if (!has(v1::COLUMN_ROLE_FEATURE)) preview.add_warnings("no column is left to be a feature");
  if (!has(v1::COLUMN_ROLE_PAYLOAD)) {
    preview.add_warnings("no column is the payload: annotators would see only the ids of the examples");
  }
  if (preview.rows_known() && preview.rows() < static_cast<std::int64_t>(kFewRows)) {
    preview.add_warnings(absl::StrCat("the pool has only ", preview.rows(), " rows"));
  }
}

void AddEngine(std::size_t memory_bytes, v1::GetPoolPreviewResponse& preview) {
  constexpr std::int64_t kDimsOfSparseRows = 256;
  const auto choice = leverage::ChooseEngine(
      "auto", {.rows = static_cast<std::size_t>(preview.rows()),
               .dims = static_cast<std::size_t>(preview.features() > 0 ? preview.features() : kDimsOfSparseRows),
               .memory_bytes = memory_bytes,
               .threads = std::max<std::size_t>(1, std::thread::hardware_concurrency())});
  if (!choice.ok()) {
    preview.add_warnings(std::string(choice.status().message()));
    return;
  }
  v1::Engine engine = v1::ENGINE_UNSPECIFIED;
  v1::Engine_Parse(absl::StrCat("ENGINE_", absl::AsciiStrToUpper(choice->engine)), &engine);
  preview.set_engine(engine);
  preview.set_engine_reason(choice->reason.empty() ? "the kernel matrix fits into memory" : choice->reason);
  preview.set_round_seconds(choice->seconds);
}

absl::StatusOr<v1::GetPoolPreviewResponse> PreviewImported(const std::string& folder, std::size_t memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(folder));
  v1::GetPoolPreviewResponse preview;
  preview.set_rows(pool.rows());
  preview.set_rows_known(true);
  if (pool.blocks() > 0) {
    FULCRUM_ASSIGN_OR_RETURN(const auto block, pool.Block(0));
    preview.set_rows_read(block->num_rows());
    for (int i = 0; i < block->num_columns(); ++i) {
      Seen seen;
      FULCRUM_RETURN_IF_ERROR(Look(*block->column(i)->Slice(0, kExamples), false, seen));
      v1::PoolColumn& column = *preview.add_columns();
      column.set_name(block->schema()->field(i)->name());
      column.set_type(block->schema()->field(i)->type()->ToString());
      column.set_numeric(seen.numeric);
      for (const std::string& text : seen.examples) column.add_examples(text);
      column.set_role(column.name() == "id"        ? v1::COLUMN_ROLE_ID
                      : column.name() == "label"   ? v1::COLUMN_ROLE_LABEL
                      : column.name() == "payload" ? v1::COLUMN_ROLE_PAYLOAD
                      : column.name() == "cost"    ? v1::COLUMN_ROLE_COST
                                                   : v1::COLUMN_ROLE_FEATURE);
    }
  }
  AddEngine(memory_bytes, preview);
  return preview;
}

/// Paths of uploads are not revealed.
absl::Status Explained(const absl::Status& status, const std::vector<UploadedFile>& uploads, const std::string& root) {
  std::string message(status.message());
  for (const UploadedFile& upload : uploads) message = absl::StrReplaceAll(message, {{upload.path, upload.file_name}});
  return absl::Status(status.code(), absl::StrReplaceAll(message, {{root + "/", ""}}));
}

absl::Status ReadRows(ingest::TableSource& source, int label_column, std::vector<Seen>& seen,
                      v1::GetPoolPreviewResponse& preview, ingest::ColumnRoles& roles) {
  std::int64_t rows = 0;
  bool ended = false;
  while (rows < kMostRows && !ended) {
    ThrowIfStopRequested();
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source.Next());
    ended = batch == nullptr;
    if (ended) break;
    if (rows == 0) ingest::SettleWidths(*batch, roles);
    const auto part = batch->Slice(0, std::min(batch->num_rows(), kMostRows - rows));
    for (int i = 0; i < part->num_columns(); ++i) {
      FULCRUM_RETURN_IF_ERROR(Look(*part->column(i), i == label_column, seen[static_cast<std::size_t>(i)]));
    }
    rows += part->num_rows();
  }
  const std::optional<std::int64_t> claimed = source.ClaimedRows();
  preview.set_rows_read(rows);
  preview.set_rows(ended ? rows : std::max(rows, claimed.value_or(0)));
  preview.set_rows_known(ended || claimed.has_value());
  return absl::OkStatus();
}

absl::StatusOr<v1::GetPoolPreviewResponse> PreviewTable(const std::vector<std::string>& paths, std::size_t memory_bytes,
                                                        const v1::GetPoolPreviewRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto source, ingest::OpenSources(paths));
  const std::vector<std::string>& names = source->column_names();
  v1::GetPoolPreviewResponse preview;
  for (const std::string& name : Missing(request, names)) {
    preview.add_warnings(absl::StrCat("there is no column '", name, "'"));
  }
  const ingest::ColumnOptions options{.id = request.id_column(),
                                      .label = request.label_column(),
                                      .cost = request.cost_column(),
                                      .payload = request.payload_column(),
                                      .ignored = {request.ignored_columns().begin(), request.ignored_columns().end()},
                                      .roles_may_be_missing = true};
  ingest::ColumnRoles roles;
  auto assigned = ingest::AssignRoles(*source->schema(), options, request.sources(0));
  if (!assigned.ok()) {
    preview.add_warnings(std::string(assigned.status().message()));
    assigned = ingest::AssignRoles(*source->schema(), WithoutUnfit(*source->schema(), options), request.sources(0));
  }
  if (assigned.ok()) roles = *std::move(assigned);
  std::vector<Seen> seen(names.size());
  FULCRUM_RETURN_IF_ERROR(ReadRows(*source, roles.label, seen, preview, roles));
  for (std::size_t i = 0; i < names.size(); ++i) {
    v1::PoolColumn& column = *preview.add_columns();
    column.set_name(names[i]);
    column.set_type(source->schema()->field(static_cast<int>(i))->type()->ToString());
    const bool is_ignored =
        std::find(options.ignored.begin(), options.ignored.end(), names[i]) != options.ignored.end();
    column.set_role(is_ignored ? v1::COLUMN_ROLE_IGNORED : RoleOf(roles, static_cast<int>(i)));
    column.set_numeric(seen[i].numeric && preview.rows_read() > 0);
    column.set_distinct(static_cast<std::int32_t>(seen[i].distinct.size()));
    for (const std::string& text : seen[i].examples) column.add_examples(text);
    WarnAboutColumn(column, seen[i], preview.rows_read(), preview);
  }
  preview.set_features(static_cast<std::int64_t>(roles.width()));
  if (roles.label >= 0) {
    const auto& counts = seen[static_cast<std::size_t>(roles.label)].counts;
    std::vector<std::pair<std::int64_t, std::string>> sorted;
    sorted.reserve(counts.size());
    for (const auto& [value, rows] : counts) sorted.emplace_back(-rows, value);
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < std::min(kMostClasses, sorted.size()); ++i) {
      if (sorted[i].second.empty()) continue;
      v1::PoolClass& added = *preview.add_classes();
      added.set_value(sorted[i].second);
      added.set_rows(-sorted[i].first);
    }
  }
  WarnAboutPool(preview);
  AddEngine(memory_bytes, preview);
  return preview;
}

}  // namespace

absl::StatusOr<v1::ListPoolFilesResponse> ListPoolFiles(const std::string& root,
                                                        const v1::ListPoolFilesRequest& request,
                                                        std::size_t page_size) {
  std::string folder = root;
  if (!request.folder().empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const auto resolved, ResolvePoolSources({request.folder()}, root));
    folder = resolved[0];
  }
  std::error_code error;
  std::vector<v1::PoolFile> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, ".")) continue;
    v1::PoolFile file;
    file.set_path(request.folder().empty() ? name : absl::StrCat(request.folder(), "/", name));
    // What a link points to must be inside the folder of pools too.
    if (!ResolvePoolSources({file.path()}, root).ok()) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      file.set_kind(storage::IsPoolFolder(entry->path().string()) ? v1::POOL_FILE_KIND_IMPORTED_POOL
                                                                  : v1::POOL_FILE_KIND_FOLDER);
    } else if (ingest::HasReader(name)) {
      file.set_kind(v1::POOL_FILE_KIND_TABLE);
      const std::uintmax_t size = entry->file_size(ignored);
      file.set_size_bytes(ignored ? 0 : static_cast<std::int64_t>(size));
    } else {
      continue;
    }
    if (file.path() > request.page_token()) files.push_back(std::move(file));
  }
  if (error)
    return absl::NotFoundError(absl::StrCat("cannot read the folder '", request.folder(), "': ", error.message()));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path() < b.path(); });
  v1::ListPoolFilesResponse response;
  for (std::size_t i = 0; i < std::min(page_size, files.size()); ++i) *response.add_files() = std::move(files[i]);
  if (files.size() > page_size) response.set_next_page_token(response.files(static_cast<int>(page_size) - 1).path());
  return response;
}

absl::StatusOr<v1::GetPoolPreviewResponse> PreviewPool(const PoolPlaces& places, std::size_t memory_bytes,
                                                       const v1::GetPoolPreviewRequest& request) {
  if (request.sources().empty()) return absl::InvalidArgumentError("'sources' names no pool");
  std::vector<std::string> paths;
  std::vector<UploadedFile> uploads;
  for (const std::string& source : request.sources()) {
    const std::string id = UploadIdOf(source);
    if (id.empty() || places.uploads == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(const auto resolved, ResolvePoolSources({source}, places.root));
      paths.push_back(resolved[0]);
    } else {
      FULCRUM_ASSIGN_OR_RETURN(UploadedFile upload, places.uploads->Use(id));
      paths.push_back(upload.path);
      uploads.push_back(std::move(upload));
    }
  }
  const bool imported = paths.size() == 1 && storage::IsPoolFolder(paths[0]);
  auto preview = imported ? PreviewImported(paths[0], memory_bytes) : PreviewTable(paths, memory_bytes, request);
  if (!preview.ok()) return Explained(preview.status(), uploads, places.root);
  return preview;
}

}  // namespace fulcrum::pipeline
