#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/record_batch.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/pool.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kMostUnknownShown = 3;

/// The two columns that matter; one that the table does not have stays empty.
struct LabelTable {
  std::vector<std::string> ids;
  std::vector<std::string> labels;
};

absl::Status CheckColumns(const TableSource& source) {
  if (source.column_names().size() == 2) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(source.path(), ", line 1: the columns are '",
                                          absl::StrJoin(source.all_column_names(), "', '"),
                                          "'; there must be one named 'id' and one named 'label'"));
}

// What a row takes at most until it is in the form that the caller wants: the columns and the result, all in vectors
// and tables that have just grown, when the old one and one of twice the size exist.
constexpr std::int64_t kBytesPerRowLabel = 460;
constexpr std::int64_t kBytesPerKnownLabel = 640;
// Copies of a text that exist at the same time.
constexpr std::int64_t kCopies = 3;

std::int64_t BytesFrom(const std::vector<std::string>& texts, std::size_t first) {
  std::int64_t bytes = 0;
  for (std::size_t i = first; i < texts.size(); ++i) bytes += kCopies * static_cast<std::int64_t>(texts[i].size());
  return bytes;
}

InputLimits ForReader(InputLimits limits) {
  limits.max_memory_bytes /= 2;
  return limits;
}

absl::Status TooManyLabels(const TableSource& source, const InputLimits& limits) {
  return absl::ResourceExhaustedError(absl::StrCat(source.path(), ": its labels do not fit the ",
                                                   limits.max_memory_bytes >> 20, " MiB that they may take"));
}

/// Half of the memory is for the reader, which limits itself.
absl::StatusOr<LabelTable> ReadTable(TableSource& source, const InputLimits& limits, std::int64_t bytes_per_row) {
  LabelTable table;
  std::int64_t bytes = 0;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source.Next());
    if (batch == nullptr) return table;
    bytes += bytes_per_row * batch->num_rows();
    if (bytes > limits.max_memory_bytes / 2) return TooManyLabels(source, limits);
    for (int column = 0; column < batch->num_columns(); ++column) {
      const std::string& name = source.column_names()[static_cast<std::size_t>(column)];
      std::vector<std::string>& texts = name == "id" ? table.ids : table.labels;
      const std::size_t before = texts.size();
      const absl::Status status = AppendTextColumn(*batch->column(column), texts);
      if (!status.ok()) {
        return absl::DataLossError(absl::StrCat(source.path(), ", column '", name, "' ", status.message()));
      }
      bytes += BytesFrom(texts, before);
    }
    if (bytes > limits.max_memory_bytes / 2) return TooManyLabels(source, limits);
  }
}

absl::Status CheckLabelsAreThere(const TableSource& source, const LabelTable& table) {
  std::vector<std::uint64_t> missing;
  for (std::size_t i = 0; i < table.labels.size() && missing.size() < ProblemList::kMostShown; ++i) {
    if (table.labels[i].empty()) missing.push_back(i);
  }
  const std::vector<std::string> places = source.PlacesOfRows(missing);
  ProblemList problems;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    problems.Add(absl::StrCat(places[i], ", column 'label': the label of '", table.ids[missing[i]],
                              "' is missing or not UTF-8 text"));
  }
  return problems.ToStatus(source.path(), "give it a label, or leave the line out if the row is not labeled");
}

std::string DescribeIds(const RowIds& ids) {
  if (ids.are_row_numbers()) {
    return absl::StrCat("the pool has no 'id' column, so its ids are the row numbers 0 to ", ids.size() - 1);
  }
  return absl::StrCat("the pool's ids look like '", ids.TextOf(0), "', '",
                      ids.TextOf(static_cast<RowIndex>(ids.size() - 1)), "'");
}

absl::Status UnknownIdsError(const TableSource& source, const LabelTable& table, const RowIds& ids,
                             const std::vector<std::uint64_t>& unknown) {
  const std::vector<std::uint64_t> shown(
      unknown.begin(), unknown.begin() + static_cast<long>(std::min(unknown.size(), kMostUnknownShown)));
  const std::vector<std::string> places = source.PlacesOfRows(shown);
  std::vector<std::string> examples;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    examples.push_back(absl::StrCat(places[i], ", column 'id': '", table.ids[shown[i]], "'"));
  }
  return absl::DataLossError(
      absl::StrCat(source.path(), ": ", unknown.size(), " of ", table.ids.size(), " ids are not in the pool:\n  ",
                   absl::StrJoin(examples, "\n  "), unknown.size() > shown.size() ? "\n  ..." : "",
                   "\n  what to do: ", DescribeIds(ids), "; correct the ids, or leave these lines out"));
}

struct Labeling {
  RowIndex row = 0;
  std::uint64_t table_row = 0;
};

absl::StatusOr<std::vector<Labeling>> ResolveIds(const TableSource& source, const LabelTable& table,
                                                 const RowIds& ids) {
  std::vector<Labeling> labelings;
  std::vector<std::uint64_t> unknown;
  for (std::size_t i = 0; i < table.ids.size(); ++i) {
    if (const std::optional<RowIndex> row = ids.Find(table.ids[i])) {
      labelings.push_back({*row, i});
    } else {
      unknown.push_back(i);
    }
  }
  if (!unknown.empty()) return UnknownIdsError(source, table, ids, unknown);
  std::stable_sort(labelings.begin(), labelings.end(),
                   [](const Labeling& a, const Labeling& b) { return a.row < b.row; });
  return labelings;
}

absl::Status CheckAgreement(const TableSource& source, const LabelTable& table,
                            const std::vector<Labeling>& labelings) {
  ProblemList problems;
  for (std::size_t i = 1; i < labelings.size() && !problems.full(); ++i) {
    const auto [row, first] = labelings[i - 1];
    const auto [next_row, again] = labelings[i];
    if (row != next_row || table.labels[first] == table.labels[again]) continue;
    const std::uint64_t rows[] = {first, again};
    const std::vector<std::string> places = source.PlacesOfRows(rows);
    problems.Add(absl::StrCat(places[1], ", column 'label': '", table.ids[again], "' is '", table.labels[again],
                              "' here and '", table.labels[first], "' in ", places[0]));
  }
  return problems.ToStatus(source.path(), "decide on one label for each id and remove the other line");
}

}  // namespace

absl::StatusOr<std::vector<RowLabel>> LoadLabelFile(const std::string& path, const RowIds& ids,
                                                    const InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source,
                           OpenTable(path, {.columns = {"id", "label"}, .limits = ForReader(limits)}));
  FULCRUM_RETURN_IF_ERROR(CheckColumns(*source));
  FULCRUM_ASSIGN_OR_RETURN(LabelTable table, ReadTable(*source, limits, kBytesPerRowLabel));
  FULCRUM_RETURN_IF_ERROR(CheckLabelsAreThere(*source, table));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<Labeling> labelings, ResolveIds(*source, table, ids));
  FULCRUM_RETURN_IF_ERROR(CheckAgreement(*source, table, labelings));
  std::vector<RowLabel> labels;
  for (const auto& [row, table_row] : labelings) {
    if (labels.empty() || labels.back().row != row) labels.push_back({row, std::move(table.labels[table_row])});
  }
  return labels;
}

namespace {

bool IsNumber(const std::string& name) {
  const std::optional<double> value = ParseNumber(name);
  return value && std::isfinite(*value);
}

}  // namespace

ClassNames::ClassNames(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) index_of_name_[names_[i]] = static_cast<ClassIndex>(i);
}

absl::StatusOr<ClassNames> ClassNames::FromLabels(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (std::all_of(labels.begin(), labels.end(), IsNumber)) {
    std::stable_sort(labels.begin(), labels.end(),
                     [](const std::string& a, const std::string& b) { return *ParseNumber(a) < *ParseNumber(b); });
    for (std::size_t i = 1; i < labels.size(); ++i) {
      if (*ParseNumber(labels[i - 1]) < *ParseNumber(labels[i])) continue;
      return absl::DataLossError(absl::StrCat("the labels '", labels[i - 1], "' and '", labels[i],
                                              "' are the same number written differently; write them alike in all "
                                              "files"));
    }
  }
  return ClassNames(std::move(labels));
}

ClassIndex ClassNames::Find(absl::string_view name) const {
  const auto found = index_of_name_.find(name);
  return found == index_of_name_.end() ? kUnlabeled : found->second;
}

namespace {

bool HasColumn(const TableSource& source, const std::string& name) {
  const auto& names = source.column_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string PlaceOf(const TableSource& source, std::uint64_t row) {
  const std::uint64_t rows[] = {row};
  return source.PlacesOfRows(rows).front();
}

absl::StatusOr<std::vector<KnownLabel>> Collect(const TableSource& source, const LabelTable& columns, bool has_ids) {
  std::vector<KnownLabel> known;
  absl::flat_hash_map<std::string, std::size_t> row_of_id;
  ProblemList problems;
  for (std::size_t row = 0; row < columns.labels.size() && !problems.full(); ++row) {
    if (columns.labels[row].empty()) continue;
    std::string id = has_ids ? columns.ids[row] : absl::StrCat(row);
    if (id.empty()) {
      problems.Add(absl::StrCat(PlaceOf(source, row), ", column 'id': is missing or not UTF-8 text"));
      continue;
    }
    const auto [first, is_new] = row_of_id.emplace(id, row);
    if (is_new) {
      // A copy stays behind for the comparison with later rows.
      known.push_back({std::move(id), columns.labels[row]});
    } else if (columns.labels[first->second] != columns.labels[row]) {
      problems.Add(absl::StrCat(PlaceOf(source, row), ", column 'label': '", id, "' is '", columns.labels[row],
                                "' here and '", columns.labels[first->second], "' in ",
                                PlaceOf(source, first->second)));
    }
  }
  FULCRUM_RETURN_IF_ERROR(
      problems.ToStatus(source.path(), "give every row an id, and decide on one label for each id"));
  return known;
}

}  // namespace

absl::StatusOr<std::vector<KnownLabel>> LoadKnownLabels(const std::string& path, const InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source,
                           OpenTable(path, {.columns = {"id", "label"}, .limits = ForReader(limits)}));
  if (!HasColumn(*source, "label")) {
    return absl::DataLossError(absl::StrCat(path, ": the columns are '",
                                            absl::StrJoin(source->all_column_names(), "', '"),
                                            "'; there must be one named 'label', and one named 'id' unless rows are "
                                            "named by their numbers from 0"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const LabelTable columns, ReadTable(*source, limits, kBytesPerKnownLabel));
  return Collect(*source, columns, HasColumn(*source, "id"));
}

}  // namespace fulcrum::ingest
