#include "stages/ingest/columns/column_roles.h"

#include <algorithm>
#include <initializer_list>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {
namespace {

constexpr char kIdColumn[] = "id";
constexpr char kLabelColumn[] = "label";
constexpr char kCostColumn[] = "cost";
constexpr char kIndicesColumn[] = "indices";
constexpr char kValuesColumn[] = "values";
constexpr std::size_t kMostNamesShown = 8;

std::string SomeNames(const std::vector<std::string>& names) {
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<long>(std::min(names.size(), kMostNamesShown)));
  return absl::StrCat("'", absl::StrJoin(shown, "', '"), names.size() > shown.size() ? "', ..." : "'");
}

// "ID" as a feature would spoil every result without a message.
absl::Status CheckNotMisspelled(const std::string& name, const std::string& path) {
  for (const char* special : {kIdColumn, kLabelColumn}) {
    if (absl::AsciiStrToLower(name) == special && name != special) {
      return absl::DataLossError(absl::StrCat(path, ": the column '", name, "' would be a feature; name it '", special,
                                              "' if it is the ", special, ", and something else if it is a feature"));
    }
  }
  return absl::OkStatus();
}

// So would a cost, which says nothing about the example.
absl::Status CheckNotACost(const std::string& name, const std::string& path) {
  if (name != kCostColumn) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": the column '", name,
                                          "' would be a feature; declare it as the cost of labeling a row, name the "
                                          "features, or give it another name if it is one"));
}

bool IsNumberList(const arrow::DataType& type) {
  const arrow::DataType* element = ListElementType(type);
  return element != nullptr && IsNumberType(*element);
}

absl::StatusOr<FeaturePart> PartOf(const arrow::Field& field, int column, const std::string& path) {
  FeaturePart part;
  part.column = column;
  part.name = field.name();
  if (IsFeatureType(*field.type())) return part;
  if (IsNumberList(*field.type())) {
    part.kind = FeaturePart::Kind::kList;
    part.width = FixedListLength(*field.type());
    return part;
  }
  return absl::DataLossError(absl::StrCat(path, ", column '", field.name(), "': values of the type ",
                                          field.type()->ToString(),
                                          " cannot be a feature; make them numbers or lists of numbers, name the "
                                          "column among the ignored columns, name the features, or remove it"));
}

bool IsIgnored(const ColumnOptions& options, const std::string& name) {
  return std::find(options.ignored.begin(), options.ignored.end(), name) != options.ignored.end();
}

// Lists named so are a pair; numbers named so are features like others.
bool IsSparsePair(const arrow::Schema& schema, const ColumnOptions& options) {
  if (IsIgnored(options, kIndicesColumn) || IsIgnored(options, kValuesColumn)) return false;
  const int indices = schema.GetFieldIndex(kIndicesColumn), values = schema.GetFieldIndex(kValuesColumn);
  if (indices < 0 || values < 0) return false;
  const arrow::DataType* element = ListElementType(*schema.field(indices)->type());
  return element != nullptr && IsIntegerType(*element) && IsNumberList(*schema.field(values)->type());
}

absl::Status TakeSparsePair(const arrow::Schema& schema, const std::string& path, ColumnRoles& roles) {
  for (const FeaturePart& part : roles.parts) {
    if (part.name == kIndicesColumn || part.name == kValuesColumn) continue;
    return absl::DataLossError(absl::StrCat(path, ": '", kIndicesColumn, "' and '", kValuesColumn,
                                            "' are sparse features, and '", part.name,
                                            "' is one more; sparse features cannot be joined with others: name the "
                                            "ones to use, or remove the column"));
  }
  FeaturePart pair;
  pair.kind = FeaturePart::Kind::kSparse;
  pair.column = schema.GetFieldIndex(kIndicesColumn);
  pair.values_column = schema.GetFieldIndex(kValuesColumn);
  pair.name = kValuesColumn;
  pair.width = 0;
  roles.parts = {pair};
  return absl::OkStatus();
}

absl::Status CheckRoleTypes(const arrow::Schema& schema, const ColumnRoles& roles, const std::string& path) {
  if (roles.cost >= 0 && !IsFeatureType(*schema.field(roles.cost)->type())) {
    return absl::DataLossError(absl::StrCat(path, ", column '", schema.field(roles.cost)->name(),
                                            "': the cost has the type ", schema.field(roles.cost)->type()->ToString(),
                                            "; it must be a number"));
  }
  return absl::OkStatus();
}

int IndexOr(const arrow::Schema& schema, const ColumnOptions& options, const std::string& given, const char* usual) {
  if (!given.empty()) return schema.GetFieldIndex(given);
  return usual == nullptr || IsIgnored(options, usual) ? -1 : schema.GetFieldIndex(usual);
}

bool IsChosen(const ColumnOptions& options, const arrow::Field& field) {
  if (IsIgnored(options, field.name())) return false;
  if (options.features.empty()) return !IsPartitionField(field);
  return std::find(options.features.begin(), options.features.end(), field.name()) != options.features.end();
}

}  // namespace

bool CanBeFeature(const arrow::DataType& type) {
  return IsFeatureType(type) || IsNumberList(type);
}

std::size_t ColumnRoles::width() const {
  std::size_t total = 0;
  for (const FeaturePart& part : parts) {
    if (part.width == 0) return 0;
    total += part.width;
  }
  return total;
}

std::vector<std::string> ColumnRoles::FeatureNames() const {
  std::vector<std::string> names;
  for (const FeaturePart& part : parts) {
    if (part.kind == FeaturePart::Kind::kNumber) names.push_back(part.name);
    if (part.kind != FeaturePart::Kind::kList) continue;
    for (std::size_t i = 0; i < part.width; ++i) names.push_back(absl::StrCat(part.name, "[", i, "]"));
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> ColumnsToRead(const std::vector<std::string>& all,
                                                       const ColumnOptions& options, const std::string& path) {
  const absl::flat_hash_set<std::string> there(all.begin(), all.end());
  std::vector<std::string> named = {options.id, options.label, options.cost, options.payload};
  named.insert(named.end(), options.features.begin(), options.features.end());
  absl::flat_hash_set<std::string> wanted;
  for (const std::string& name : named) {
    if (name.empty()) continue;
    const bool is_feature = std::find(options.features.begin(), options.features.end(), name) != options.features.end();
    if (!there.contains(name) && options.roles_may_be_missing && !is_feature) continue;
    if (!there.contains(name)) {
      const bool other_separator = all.size() == 1 && all[0].find_first_of(";\t|") != std::string::npos;
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has no column '", name, "'; its columns are ", SomeNames(all),
          other_separator ? "; values are separated by commas, and this file seems to use something else" : ""));
    }
    if (!wanted.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the column '", name, "' is named for two purposes; a column can have only one"));
    }
  }
  for (const std::string& name : options.ignored) {
    if (wanted.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("the column '", name, "' is ignored, and named for a purpose"));
    }
  }
  for (const char* usual : {kIdColumn, kLabelColumn}) {
    if (there.contains(usual)) wanted.insert(usual);
  }
  std::vector<std::string> columns;
  for (const std::string& name : all) {
    if (!IsIgnored(options, name) && (options.features.empty() || wanted.contains(name))) columns.push_back(name);
  }
  return columns;
}

absl::StatusOr<ColumnRoles> AssignRoles(const arrow::Schema& schema, const ColumnOptions& options,
                                        const std::string& path) {
  ColumnRoles roles;
  roles.id = IndexOr(schema, options, options.id, kIdColumn);
  roles.label = IndexOr(schema, options, options.label, kLabelColumn);
  roles.cost = IndexOr(schema, options, options.cost, nullptr);
  roles.payload = IndexOr(schema, options, options.payload, nullptr);
  for (int column = 0; column < schema.num_fields(); ++column) {
    const bool taken = column == roles.id || column == roles.label || column == roles.cost || column == roles.payload;
    const std::string& name = schema.field(column)->name();
    if (taken || !IsChosen(options, *schema.field(column))) continue;
    if (options.features.empty()) FULCRUM_RETURN_IF_ERROR(CheckNotMisspelled(name, path));
    if (options.features.empty() && options.cost.empty()) FULCRUM_RETURN_IF_ERROR(CheckNotACost(name, path));
    FULCRUM_ASSIGN_OR_RETURN(roles.parts.emplace_back(), PartOf(*schema.field(column), column, path));
  }
  if (roles.parts.empty()) {
    return absl::DataLossError(absl::StrCat(
        path,
        " has no feature columns: ids, labels, payloads and costs are no features; add at least one column of "
        "numbers, such as those of an embedding of each text or image"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckRoleTypes(schema, roles, path));
  if (IsSparsePair(schema, options)) FULCRUM_RETURN_IF_ERROR(TakeSparsePair(schema, path, roles));
  return roles;
}

void SettleWidths(const arrow::RecordBatch& batch, ColumnRoles& roles) {
  for (FeaturePart& part : roles.parts) {
    if (part.kind != FeaturePart::Kind::kList || part.width != 0) continue;
    absl::flat_hash_map<std::size_t, std::size_t> counts;
    std::size_t best = 0;
    const ListColumn lists(*batch.column(part.column));
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      if (!lists.IsThere(row) || lists.LengthOf(row) == 0) continue;
      const std::size_t length = lists.LengthOf(row);
      // Ties go to the length that reached the count first, so the answer does not depend on hashing.
      if (++counts[length] > best) {
        best = counts[length];
        part.width = length;
      }
    }
  }
}

}  // namespace fulcrum::ingest
