// What the annotators of a campaign have done so far, in numbers: what assignment and budgets depend on.
//
// Derived from the log like the other tables; the report of annotators reads the log itself and knows more. Used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::storage {

struct AnnotatorActivity {
  std::int64_t answers = 0;
  std::int64_t skips = 0;    ///< as unsure or as a bad item
  std::int64_t expired = 0;  ///< leases
  double cost = 0;           ///< of the answers

  bool operator==(const AnnotatorActivity&) const = default;
  AnnotatorActivity& operator+=(const AnnotatorActivity& more);
};

class ActivityTable {
 public:
  using ByName = std::map<std::string, AnnotatorActivity, std::less<>>;

  /// Nothing but zeros for an annotator who has done nothing.
  AnnotatorActivity Of(absl::string_view annotator) const;
  const ByName& all() const { return activities_; }

  /// Of all annotators together.
  const AnnotatorActivity& total() const { return total_; }

  void Add(const std::string& annotator, const AnnotatorActivity& more);

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  std::string ToText() const;
  /// DataLoss if ToText did not write the rows.
  static absl::StatusOr<ActivityTable> FromRows(const std::vector<std::vector<std::string>>& rows);

 private:
  ByName activities_;
  AnnotatorActivity total_;
  AnnotatorActivity total_before_;
  std::vector<std::pair<std::string, std::optional<AnnotatorActivity>>> before_;  // as they were, oldest first
  bool keeps_ = false;
};

}  // namespace fulcrum::storage
