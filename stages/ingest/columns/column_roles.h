// What the columns of a table mean: which is the id, which the label, and where the features are.
//
// Features are numbers in columns of their own, lists of numbers of one length, or a sparse pair: a list of indices
// (from 0) next to a list of values. Plain values and functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

/// What the user says about the columns. Without a word, a column `id` is the id, `label` the label, a pair of lists
/// `indices` and `values` is sparse, and everything else is a feature, except what the names of folders say.
struct ColumnOptions {
  std::string id = {};
  std::string label = {};
  std::string cost = {};                   ///< what labeling the row costs
  std::string payload = {};                ///< what a person needs to see to label it; carried, never looked at
  std::vector<std::string> features = {};  ///< empty: all that are left
  std::vector<std::string> ignored = {};   ///< not used if they exist, whatever they are called
  /// The columns of id, label, cost and payload need not exist; they are no features if they do.
  bool roles_may_be_missing = false;
};

/// A column, or a pair of them, that gives features.
struct FeaturePart {
  enum class Kind { kNumber, kList, kSparse };

  Kind kind = Kind::kNumber;
  int column = -1;         ///< in the batch; the indices of a sparse pair
  int values_column = -1;  ///< of a sparse pair
  std::string name = {};
  std::size_t width = 1;  ///< features; 0 for lists until rows have shown how long they are
};

struct ColumnRoles {
  int id = -1;  ///< -1 where there is none
  int label = -1;
  int cost = -1;
  int payload = -1;
  std::vector<FeaturePart> parts = {};

  bool sparse() const { return parts.size() == 1 && parts[0].kind == FeaturePart::Kind::kSparse; }
  /// Features of a row; 0 while a width is not known, and for sparse ones.
  std::size_t width() const;
  /// "f0", or "embedding[3]" for an element of a list.
  std::vector<std::string> FeatureNames() const;
};

/// The columns to read of a table that has these ones: all that are not ignored, or the ones that were named.
/// InvalidArgument for a name that the table does not have.
absl::StatusOr<std::vector<std::string>> ColumnsToRead(const std::vector<std::string>& all,
                                                       const ColumnOptions& options, const std::string& path);

/// Whether a column of this type can be a feature, or a list of them.
bool CanBeFeature(const arrow::DataType& type);

/// DataLoss if a column cannot be what it should be, with the column and what to do.
absl::StatusOr<ColumnRoles> AssignRoles(const arrow::Schema& schema, const ColumnOptions& options,
                                        const std::string& path);

/// Fills in the widths of lists that are not known yet: what most rows of the batch have.
void SettleWidths(const arrow::RecordBatch& batch, ColumnRoles& roles);

}  // namespace fulcrum::ingest
