// `fulcrum inspect`: what is in an imported pool.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/options.h"
#include "stages/core/status_macros.h"
#include "storage/pool/feature_statistics.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_block.h"

namespace fulcrum::pipeline {
namespace {

// What there is to know about an imported pool, for `fulcrum inspect`.

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
    absl::StrAppendFormat(&text, "  %-28s %12.5g %12.5g %12.5g %12.5g\n", NameOf(statistics, i).substr(0, 28),
                          statistics.minima()[i], statistics.means()[i], statistics.maxima()[i],
                          statistics.DeviationOf(i));
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
    absl::StrAppendFormat(&text, "  %-28s %12d\n", label.substr(0, 28), count);
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

constexpr char kFooter[] = R"(Reads every row once and compares all checksums.

Example:
  fulcrum inspect pool --json
)";

struct InspectOptions {
  std::string folder;
  bool json = false;
  std::size_t features = 10;
};

absl::Status Inspect(const InspectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(options.folder));
  FULCRUM_ASSIGN_OR_RETURN(const PoolSummary summary, SummarizePool(pool));
  const std::string text = options.json ? SummaryJson(pool, summary) : SummaryText(pool, summary, options.features);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

CommandRun AddInspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("pool", options->folder, "The folder of an imported pool")->type_name("FOLDER")->required();
  app.add_flag("--json", options->json, "For programs, with every feature");
  app.add_option("--features", options->features, "How many features to show in the table")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N");
  app.footer(kFooter);
  return [options] { return Inspect(*options); };
}

}  // namespace

Command InspectCommand() {
  return {"inspect", "Data", "Tell what an imported pool holds", AddInspect};
}

}  // namespace fulcrum::pipeline
