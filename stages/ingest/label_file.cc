#include "stages/ingest/label_file.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/record_batch.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/problem_list.h"
#include "stages/ingest/reader_registry.h"
#include "stages/ingest/text_column.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kMostUnknownShown = 3;

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

absl::StatusOr<LabelTable> ReadTable(TableSource& source) {
  LabelTable table;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source.Next());
    if (batch == nullptr) return table;
    for (int column = 0; column < batch->num_columns(); ++column) {
      const std::string& name = source.column_names()[static_cast<std::size_t>(column)];
      const absl::Status status = AppendTextColumn(*batch->column(column), name == "id" ? table.ids : table.labels);
      if (!status.ok()) {
        return absl::DataLossError(absl::StrCat(source.path(), ", column '", name, "' ", status.message()));
      }
    }
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

absl::StatusOr<std::vector<RowLabel>> LoadLabelFile(const std::string& path, const RowIds& ids) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source, OpenTable(path, {.columns = {"id", "label"}}));
  FULCRUM_RETURN_IF_ERROR(CheckColumns(*source));
  FULCRUM_ASSIGN_OR_RETURN(LabelTable table, ReadTable(*source));
  FULCRUM_RETURN_IF_ERROR(CheckLabelsAreThere(*source, table));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<Labeling> labelings, ResolveIds(*source, table, ids));
  FULCRUM_RETURN_IF_ERROR(CheckAgreement(*source, table, labelings));
  std::vector<RowLabel> labels;
  for (const auto& [row, table_row] : labelings) {
    if (labels.empty() || labels.back().row != row) labels.push_back({row, std::move(table.labels[table_row])});
  }
  return labels;
}

}  // namespace fulcrum::ingest
