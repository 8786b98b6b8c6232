#include "pipeline/campaign/model/feature_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

absl::Status BadRow(const std::string& called, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(called, " ", what));
}

/// With 32 bits, so that a row of the pool gets the same answer by its values as by its name.
float AsThePoolHasIt(double value) {
  return static_cast<float>(value);
}

absl::Status FillSparse(const v1::FeatureRow& row, const std::string& called, std::span<double> to) {
  if (row.indices_size() != row.values_size()) {
    return BadRow(called, absl::StrCat("has ", row.indices_size(), " indices and ", row.values_size(), " values"));
  }
  std::fill(to.begin(), to.end(), 0.0);
  int last = -1;
  for (int i = 0; i < row.indices_size(); ++i) {
    const int index = row.indices(i);
    if (index <= last || static_cast<std::size_t>(index) >= to.size()) {
      return BadRow(called, absl::StrCat("has the index ", index, " after ", last, "; they must ascend, from 0 to ",
                                         to.size() - 1));
    }
    to[static_cast<std::size_t>(index)] = AsThePoolHasIt(row.values(i));
    last = index;
  }
  return absl::OkStatus();
}

absl::Status Fill(const v1::FeatureRow& row, const std::string& called, std::span<double> to) {
  if (!std::all_of(row.values().begin(), row.values().end(),
                   [](double value) { return std::isfinite(AsThePoolHasIt(value)); })) {
    return BadRow(called, "has a value that is not a finite 32-bit number");
  }
  if (row.indices_size() > 0) return FillSparse(row, called, to);
  if (static_cast<std::size_t>(row.values_size()) != to.size()) {
    return BadRow(called, absl::StrCat("has ", row.values_size(), " features, and the pool has ", to.size()));
  }
  std::transform(row.values().begin(), row.values().end(), to.begin(), AsThePoolHasIt);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FeatureRows> FeatureRows::Make(const CampaignPool& pool,
                                              const google::protobuf::RepeatedPtrField<std::string>& names) {
  FeatureRows rows;
  if (names.empty()) return rows;
  if (pool.feature_names().empty()) {
    return absl::InvalidArgumentError("the features of this pool have no names; leave 'feature_names' out");
  }
  FULCRUM_ASSIGN_OR_RETURN(rows.columns_, pool.MatchFeatures({names.begin(), names.end()}));
  return rows;
}

absl::Status FeatureRows::Read(const v1::FeatureRow& row, const std::string& called, std::span<double> to) const {
  if (columns_.empty()) return Fill(row, called, to);
  std::vector<double> values(columns_.size());
  FULCRUM_RETURN_IF_ERROR(Fill(row, called, values));
  for (std::size_t column = 0; column < columns_.size(); ++column) to[column] = values[columns_[column]];
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
