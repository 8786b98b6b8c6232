// Lists of records inside a column of a table, as JSON that SQLite's functions read too.
//
// A plain value for one thread; Parse is stateless.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::storage {

/// A list of lists of texts as JSON: [["a","b"],["c"]]. Numbers are written as numbers.
class JsonRows {
 public:
  /// Starts the next inner list.
  JsonRows& Row();
  JsonRows& Add(absl::string_view text);
  JsonRows& Add(std::int64_t number);
  JsonRows& Add(double number);
  /// The whole list. No more can be added.
  std::string Take();

  /// DataLoss if the text is not a list that this class wrote. Numbers are returned as text.
  static absl::StatusOr<std::vector<std::vector<std::string>>> Parse(absl::string_view text);

 private:
  void Separate();

  std::string text_ = "[";
  bool in_row_ = false;
};

}  // namespace fulcrum::storage
