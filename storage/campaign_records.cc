#include "storage/campaign_records.h"

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

}  // namespace fulcrum::storage
