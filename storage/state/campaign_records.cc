#include "storage/state/campaign_records.h"

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {

const char* ItemStatusName(ItemStatus status) {
  switch (status) {
    case ItemStatus::kInPool:
      return "in pool";
    case ItemStatus::kOffered:
      return "offered";
    case ItemStatus::kLabeled:
      return "labeled";
    case ItemStatus::kDisputed:
      return "disputed";
    case ItemStatus::kSetAside:
      return "set aside";
  }
  return "unknown";
}

const char* SlotStatusName(SlotStatus status) {
  switch (status) {
    case SlotStatus::kOpen:
      return "open";
    case SlotStatus::kLeased:
      return "leased";
    case SlotStatus::kAnswered:
      return "answered";
    case SlotStatus::kClosed:
      return "closed";
  }
  return "unknown";
}

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
