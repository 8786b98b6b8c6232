// `fulcrum inspect`: what is in an imported pool, or in a file of any format.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
namespace {

// The figures of an imported pool, for `fulcrum inspect`.

struct PoolSummary {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  bool sparse = false;
  std::int64_t nonzeros = 0;    ///< of a sparse pool
  std::int64_t duplicates = 0;  ///< rows whose features an earlier row has too
  std::map<std::string, std::int64_t> label_counts = {};
  std::int64_t missing_labels = 0;
  std::int64_t missing_costs = 0;
  std::int64_t missing_payloads = 0;
  std::int64_t payload_bytes = 0;
  double cost_sum = 0;
  std::int64_t file_bytes = 0;
  storage::FeatureStatistics statistics = {};
};

using Json = nlohmann::ordered_json;

void CountLabels(const arrow::Array& array, PoolSummary& summary) {
  const auto& labels = static_cast<const arrow::StringArray&>(array);
  summary.missing_labels += labels.null_count();
  for (std::int64_t row = 0; row < labels.length(); ++row) {
    if (labels.IsValid(row)) ++summary.label_counts[labels.GetString(row)];
  }
}

void SumCosts(const arrow::Array& array, PoolSummary& summary) {
  const auto& costs = static_cast<const arrow::DoubleArray&>(array);
  summary.missing_costs += costs.null_count();
  for (std::int64_t row = 0; row < costs.length(); ++row) {
    if (costs.IsValid(row)) summary.cost_sum += costs.Value(row);
  }
}

void AddBlock(const arrow::RecordBatch& batch, const storage::PoolShape& shape,
              absl::flat_hash_set<std::uint64_t>& seen, PoolSummary& summary) {
  const storage::PoolColumns columns = storage::ColumnsOf(shape);
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    if (!seen.insert(storage::FeatureFingerprint(batch, shape, row)).second) ++summary.duplicates;
  }
  if (shape.sparse) {
    const auto& indices = static_cast<const arrow::ListArray&>(*batch.column(columns.features));
    summary.nonzeros += indices.value_offset(indices.length()) - indices.value_offset(0);
  }
  if (columns.label >= 0) CountLabels(*batch.column(columns.label), summary);
  if (columns.cost >= 0) SumCosts(*batch.column(columns.cost), summary);
  if (columns.payload < 0) return;
  const auto& payloads = static_cast<const arrow::BinaryArray&>(*batch.column(columns.payload));
  summary.missing_payloads += payloads.null_count();
  summary.payload_bytes += payloads.total_values_length();
}

std::int64_t FolderBytes(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<std::int64_t>(entry.file_size(ignored));
  }
  return bytes;
}

std::string NameOf(const storage::FeatureStatistics& statistics, std::size_t feature) {
  return feature < statistics.names().size() ? statistics.names()[feature] : absl::StrCat(feature + 1);
}

void AppendFeatures(const storage::FeatureStatistics& statistics, std::size_t most, std::string& text) {
  absl::StrAppendFormat(&text, "\n  %-28s %12s %12s %12s %12s\n", "feature", "minimum", "mean", "maximum", "deviation");
  const std::size_t shown = std::min(most, statistics.features());
  for (std::size_t i = 0; i < shown; ++i) {
    absl::StrAppendFormat(&text, "  %-28s %12.5g %12.5g %12.5g %12.5g\n",
                          PrintableLine(NameOf(statistics, i)).substr(0, 28), statistics.minima()[i],
                          statistics.means()[i], statistics.maxima()[i], statistics.DeviationOf(i));
  }
  if (shown < statistics.features()) {
    absl::StrAppend(&text, "  ... and ", statistics.features() - shown, " more (--features N shows more)\n");
  }
}

void AppendLabels(const PoolSummary& summary, std::string& text) {
  constexpr std::size_t kMostShown = 20;
  absl::StrAppend(&text, "\n  label                                rows\n");
  std::size_t shown = 0;
  for (const auto& [label, count] : summary.label_counts) {
    if (++shown > kMostShown) break;
    absl::StrAppendFormat(&text, "  %-28s %12d\n", PrintableLine(label).substr(0, 28), count);
  }
  if (shown > kMostShown) absl::StrAppend(&text, "  ... and ", summary.label_counts.size() - kMostShown, " more\n");
  absl::StrAppendFormat(&text, "  %-28s %12d\n", "(none)", summary.missing_labels);
}

/// Reads every row once.
absl::StatusOr<PoolSummary> SummarizePool(const storage::MappedPool& pool) {
  FULCRUM_RETURN_IF_ERROR(pool.Verify());
  PoolSummary summary;
  summary.rows = pool.rows();
  summary.features = pool.manifest().features;
  summary.sparse = pool.shape().sparse;
  summary.file_bytes = FolderBytes(pool.folder());
  FULCRUM_ASSIGN_OR_RETURN(summary.statistics, pool.Statistics());
  absl::flat_hash_set<std::uint64_t> seen;
  for (std::size_t block = 0; block < pool.blocks(); ++block) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, pool.Block(block));
    AddBlock(*batch, pool.shape(), seen, summary);
  }
  return summary;
}

/// For people, and for programs.
std::string SummaryText(const storage::MappedPool& pool, const PoolSummary& summary, std::size_t most_features) {
  std::string text = absl::StrCat(pool.folder(), "\n");
  const auto line = [&](const char* what, const std::string& value) {
    absl::StrAppendFormat(&text, "  %-28s %12s\n", what, value);
  };
  line("rows", absl::StrCat(summary.rows));
  line("features", absl::StrCat(summary.features, summary.sparse ? " (sparse)" : ""));
  if (summary.sparse) line("elements that are not zero", absl::StrCat(summary.nonzeros));
  line("rows with copied features", absl::StrCat(summary.duplicates));
  line("rejected at import", absl::StrCat(pool.manifest().rejected));
  line("ids", pool.shape().has_id ? "given" : "row numbers");
  if (pool.shape().has_cost) line("cost of all rows", absl::StrFormat("%.6g", summary.cost_sum));
  if (pool.shape().has_cost) line("rows without a cost", absl::StrCat(summary.missing_costs));
  if (pool.shape().has_payload)
    line("payload MiB", absl::StrFormat("%.1f", static_cast<double>(summary.payload_bytes) / (1 << 20)));
  if (pool.shape().has_payload) line("rows without a payload", absl::StrCat(summary.missing_payloads));
  line("files", absl::StrCat(pool.manifest().parts.size()));
  line("blocks, checksums good", absl::StrCat(pool.blocks()));
  line("MiB on disk", absl::StrFormat("%.1f", static_cast<double>(summary.file_bytes) / (1 << 20)));
  if (pool.shape().has_label) AppendLabels(summary, text);
  AppendFeatures(summary.statistics, most_features, text);
  return text;
}

std::string SummaryJson(const storage::MappedPool& pool, const PoolSummary& summary) {
  Json labels = Json::object();
  for (const auto& [label, count] : summary.label_counts) labels[label] = count;
  Json features = Json::array();
  for (std::size_t i = 0; i < summary.statistics.features(); ++i) {
    features.push_back({{"name", NameOf(summary.statistics, i)},
                        {"minimum", summary.statistics.minima()[i]},
                        {"mean", summary.statistics.means()[i]},
                        {"maximum", summary.statistics.maxima()[i]},
                        {"deviation", summary.statistics.DeviationOf(i)}});
  }
  const auto if_there = [](bool there, Json value) { return there ? value : Json(nullptr); };
  const Json json = {{"pool", pool.folder()},
                     {"rows", summary.rows},
                     {"features", summary.features},
                     {"sparse", summary.sparse},
                     {"nonzeros", if_there(summary.sparse, summary.nonzeros)},
                     {"duplicates", summary.duplicates},
                     {"rejected", pool.manifest().rejected},
                     {"has_ids", pool.shape().has_id},
                     {"labels", if_there(pool.shape().has_label, labels)},
                     {"missing",
                      {{"labels", if_there(pool.shape().has_label, summary.missing_labels)},
                       {"costs", if_there(pool.shape().has_cost, summary.missing_costs)},
                       {"payloads", if_there(pool.shape().has_payload, summary.missing_payloads)}}},
                     {"cost_sum", if_there(pool.shape().has_cost, summary.cost_sum)},
                     {"payload_bytes", if_there(pool.shape().has_payload, summary.payload_bytes)},
                     {"files", pool.manifest().parts.size()},
                     {"blocks", pool.blocks()},
                     {"bytes", summary.file_bytes},
                     {"statistics", features}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Files that are not imported: their columns as a pool would use them.

struct ColumnSummary {
  std::string name = {};
  std::string type = {};
  std::string role = {};
  bool text = false;
  bool feature = false;
  std::int64_t missing = 0;      ///< null or empty
  std::int64_t not_numbers = 0;  ///< values that are there and not finite numbers
};

struct TableSummary {
  std::string format = {};
  std::int64_t rows = 0;
  std::vector<ColumnSummary> columns = {};
  std::map<std::string, std::int64_t> label_counts = {};
  bool more_labels = false;  ///< than are counted
  std::string problem = {};  ///< why the file cannot be a pool as it is
};

// A column of labels has a few; one that was taken for it may have one per row.
constexpr std::size_t kMostLabelsCounted = 10'000;

std::vector<ColumnSummary> DescribeColumns(const ingest::TableSource& source, TableSummary& summary,
                                           ingest::ColumnRoles& roles) {
  auto assigned = ingest::AssignRoles(*source.schema(), {}, source.path());
  if (assigned.ok()) roles = *std::move(assigned);
  if (!assigned.ok()) summary.problem = std::string(assigned.status().message());
  std::vector<ColumnSummary> columns;
  for (const auto& field : source.schema()->fields()) {
    const bool is_csv = summary.format == "CSV" && field->type()->id() == arrow::Type::BINARY;
    columns.push_back({.name = field->name(),
                       .type = is_csv ? "number" : field->type()->ToString(),
                       .role = field->name() == "id" || field->name() == "label" ? field->name() : "-",
                       .text = is_csv});
  }
  for (const ingest::FeaturePart& part : roles.parts) {
    for (const int column : {part.column, part.values_column}) {
      if (column < 0) continue;
      columns[static_cast<std::size_t>(column)].role = "feature";
      columns[static_cast<std::size_t>(column)].feature = part.kind == ingest::FeaturePart::Kind::kNumber;
    }
  }
  return columns;
}

void AddCell(const std::optional<double>& value, bool empty, ColumnSummary& column) {
  if (empty) {
    ++column.missing;
  } else if (!value || !std::isfinite(*value)) {
    ++column.not_numbers;
  }
}

void AddColumn(const arrow::Array& array, ColumnSummary& column) {
  if (!column.text && !column.feature) {
    column.missing += array.null_count();
    return;
  }
  ingest::VisitNumberArray(array, [&](const auto& typed) {
    for (std::int64_t row = 0; row < typed.length(); ++row) {
      if (typed.IsNull(row)) {
        ++column.missing;
        continue;
      }
      if constexpr (ingest::kIsTextArray<std::decay_t<decltype(typed)>>) {
        AddCell(ingest::NumberAt(typed, row), typed.GetView(row).empty(), column);
      } else {
        AddCell(ingest::NumberAt(typed, row), false, column);
      }
    }
  });
}

absl::Status AddLabels(const arrow::Array& array, TableSummary& summary) {
  std::vector<std::string> labels;
  FULCRUM_RETURN_IF_ERROR(ingest::AppendTextColumn(array, labels));
  for (const std::string& label : labels) {
    if (label.empty()) continue;
    const bool room = summary.label_counts.size() < kMostLabelsCounted || summary.label_counts.contains(label);
    if (room) ++summary.label_counts[label];
    summary.more_labels = summary.more_labels || !room;
  }
  return absl::OkStatus();
}

/// Reads every row once.
absl::StatusOr<TableSummary> SummarizeTable(const std::string& path, const ingest::InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(const auto source, ingest::OpenSources({path}, {}, limits));
  TableSummary summary;
  summary.format = ingest::FormatName(source->current_file());
  ingest::ColumnRoles roles;
  summary.columns = DescribeColumns(*source, summary, roles);
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source->Next());
    if (batch == nullptr) break;
    summary.rows += batch->num_rows();
    for (int i = 0; i < batch->num_columns(); ++i) {
      AddColumn(*batch->column(i), summary.columns[static_cast<std::size_t>(i)]);
    }
    if (roles.label < 0) continue;
    const absl::Status status = AddLabels(*batch->column(roles.label), summary);
    if (!status.ok()) return absl::DataLossError(absl::StrCat(path, ", column 'label' ", status.message()));
  }
  for (ColumnSummary& column : summary.columns) {
    if (column.text && column.not_numbers > 0) column.type = "text";
  }
  return summary;
}

std::int64_t MissingLabels(const TableSummary& summary) {
  for (const ColumnSummary& column : summary.columns) {
    if (column.role == "label") return column.missing;
  }
  return 0;
}

std::string TableText(const std::string& path, const TableSummary& summary, std::size_t most_columns) {
  std::string text = absl::StrCat(PrintableLine(path), "\n");
  absl::StrAppendFormat(&text, "  %-28s %12s\n  %-28s %12d\n  %-28s %12d\n", "format", summary.format, "rows",
                        summary.rows, "columns", summary.columns.size());
  if (!summary.problem.empty()) absl::StrAppend(&text, "  not a pool as it is: ", PrintableText(summary.problem), "\n");
  absl::StrAppendFormat(&text, "\n  %-28s %-16s %-8s %12s %12s\n", "column", "type", "role", "missing", "not finite");
  const std::size_t shown = std::min(most_columns, summary.columns.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const ColumnSummary& column = summary.columns[i];
    absl::StrAppendFormat(&text, "  %-28s %-16s %-8s %12d %12s\n", PrintableLine(column.name).substr(0, 28),
                          column.type, column.role, column.missing,
                          column.feature ? absl::StrCat(column.not_numbers) : "-");
  }
  if (shown < summary.columns.size()) {
    absl::StrAppend(&text, "  ... and ", summary.columns.size() - shown, " more (--features N shows more)\n");
  }
  if (summary.label_counts.empty()) return text;
  AppendLabels({.label_counts = summary.label_counts, .missing_labels = MissingLabels(summary)}, text);
  if (summary.more_labels) absl::StrAppend(&text, "  only the first ", kMostLabelsCounted, " labels are counted\n");
  return text;
}

std::string TableJson(const std::string& path, const TableSummary& summary) {
  Json columns = Json::array();
  for (const ColumnSummary& column : summary.columns) {
    columns.push_back({{"name", column.name},
                       {"type", column.type},
                       {"role", column.role},
                       {"missing", column.missing},
                       {"not_finite", column.feature ? Json(column.not_numbers) : Json(nullptr)}});
  }
  Json labels = Json::object();
  for (const auto& [label, count] : summary.label_counts) labels[label] = count;
  const Json json = {{"file", path},       {"format", summary.format},    {"rows", summary.rows},
                     {"columns", columns}, {"labels", std::move(labels)}, {"problem", summary.problem}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

constexpr char kInspectFooter[] =
    R"(Of an imported pool, reads every row once and compares all checksums. Of a file (any format that 'fulcrum import'
reads, also /dev/stdin), shows the columns, their types, what each would be in a pool, how many values are missing or
are not finite numbers, and the labels.

Examples:
  fulcrum inspect pool --json
  fulcrum inspect news.parquet
)";

struct InspectOptions {
  std::string path;
  std::string memory = "2GiB";
  bool json = false;
  std::size_t features = 10;
};

absl::StatusOr<std::string> InspectPool(const InspectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(options.path));
  FULCRUM_ASSIGN_OR_RETURN(const PoolSummary summary, SummarizePool(pool));
  return options.json ? SummaryJson(pool, summary) : SummaryText(pool, summary, options.features);
}

absl::StatusOr<std::string> InspectTable(const InspectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(ingest::InputLimits limits, LimitsOf(options.memory));
  // The other half is for labels as text, which Arrow does not allocate.
  limits.max_memory_bytes /= 2;
  const absl::StatusOr<TableSummary> summary = SummarizeTable(options.path, limits);
  FULCRUM_RETURN_IF_ERROR(WithMemoryAdvice(summary.status(), options.memory));
  return options.json ? TableJson(options.path, *summary) : TableText(options.path, *summary, options.features);
}

absl::Status Inspect(const InspectOptions& options) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(options.path, ignored);
  const bool is_pool = storage::IsPoolFolder(options.path);
  // A folder is either a pool or one of files; if it has none of those either, the message about pools helps more.
  const bool as_pool = is_pool || (is_folder && !ingest::ListSources({options.path}).ok());
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, as_pool ? InspectPool(options) : InspectTable(options));
  FULCRUM_ASSIGN_OR_RETURN(const auto output, OpenTextSink("-"));
  FULCRUM_RETURN_IF_ERROR(output->Write(text));
  return output->Finish();
}

CommandRun AddInspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("path", options->path, "The folder of an imported pool, or a file, a folder or a glob")
      ->type_name("POOL|FILE")
      ->required();
  AddMemoryOption(app, options->memory);
  app.add_flag("--json", options->json, "For programs, with every feature");
  app.add_option("--features", options->features, "How many features or columns to show in the table")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N");
  app.footer(kInspectFooter);
  return [options] { return Inspect(*options); };
}

}  // namespace

Command InspectCommand() {
  return {"inspect", "Data", "Show what an imported pool or a file holds", AddInspect};
}

}  // namespace fulcrum::pipeline
