#include "storage/skip_reason.h"

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {

const char* SkipReasonName(SkipReason reason) {
  switch (reason) {
    case SkipReason::kUnsure:
      return "unsure";
    case SkipReason::kBadItem:
      return "bad item";
    case SkipReason::kNotNow:
      return "not now";
  }
  return "unknown";
}

absl::StatusOr<SkipReason> ParseSkipReason(absl::string_view name) {
  for (const SkipReason reason : {SkipReason::kUnsure, SkipReason::kBadItem, SkipReason::kNotNow}) {
    if (name == SkipReasonName(reason)) return reason;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no reason to skip; it must be 'unsure', 'bad item' or 'not now'"));
}

}  // namespace fulcrum::storage
