#include "stages/ingest/known_labels.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/record_batch.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/problem_list.h"
#include "stages/ingest/reader_registry.h"
#include "stages/ingest/text_column.h"

namespace fulcrum::ingest {
namespace {

struct TextColumns {
  std::vector<std::string> ids;
  std::vector<std::string> labels;
};

bool HasColumn(const TableSource& source, const std::string& name) {
  const auto& names = source.column_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::StatusOr<TextColumns> ReadColumns(TableSource& source) {
  TextColumns columns;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const auto batch, source.Next());
    if (batch == nullptr) return columns;
    for (int i = 0; i < batch->num_columns(); ++i) {
      const std::string& name = source.column_names()[static_cast<std::size_t>(i)];
      if (name != "id" && name != "label") continue;
      const absl::Status status = AppendTextColumn(*batch->column(i), name == "id" ? columns.ids : columns.labels);
      if (!status.ok()) {
        return absl::DataLossError(absl::StrCat(source.path(), ", column '", name, "' ", status.message()));
      }
    }
  }
}

std::string PlaceOf(const TableSource& source, std::uint64_t row) {
  const std::uint64_t rows[] = {row};
  return source.PlacesOfRows(rows).front();
}

absl::StatusOr<std::vector<KnownLabel>> Collect(const TableSource& source, TextColumns columns, bool has_ids) {
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

absl::StatusOr<std::vector<KnownLabel>> LoadKnownLabels(const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TableSource> source, OpenTable(path, {.columns = {"id", "label"}}));
  if (!HasColumn(*source, "label")) {
    return absl::DataLossError(absl::StrCat(path, ": the columns are '",
                                            absl::StrJoin(source->all_column_names(), "', '"),
                                            "'; there must be one named 'label', and one named 'id' unless rows are "
                                            "named by their numbers from 0"));
  }
  FULCRUM_ASSIGN_OR_RETURN(TextColumns columns, ReadColumns(*source));
  return Collect(*source, std::move(columns), HasColumn(*source, "id"));
}

}  // namespace fulcrum::ingest
