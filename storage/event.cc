#include "storage/event.h"

#include <algorithm>
#include <array>

namespace fulcrum::storage {
namespace {

struct KindName {
  EventKind kind;
  const char* name;
};

constexpr std::array kKinds = {
    KindName{EventKind::kStoreOpened, "store_opened"},     KindName{EventKind::kSettingsChanged, "settings_changed"},
    KindName{EventKind::kLifeChanged, "life_changed"},     KindName{EventKind::kBatchCommitted, "batch_committed"},
    KindName{EventKind::kItemBatched, "item_batched"},     KindName{EventKind::kRoundClosed, "round_closed"},
    KindName{EventKind::kModelStored, "model_stored"},     KindName{EventKind::kLeaseGranted, "lease_granted"},
    KindName{EventKind::kLeaseRenewed, "lease_renewed"},   KindName{EventKind::kLeaseReleased, "lease_released"},
    KindName{EventKind::kLeaseExpired, "lease_expired"},   KindName{EventKind::kLabelSubmitted, "label_submitted"},
    KindName{EventKind::kLabelChanged, "label_changed"},   KindName{EventKind::kLabelWithdrawn, "label_withdrawn"},
    KindName{EventKind::kLabelImported, "label_imported"}, KindName{EventKind::kTaskSkipped, "task_skipped"},
    KindName{EventKind::kItemSetAside, "item_set_aside"},  KindName{EventKind::kItemReturned, "item_returned"},
    KindName{EventKind::kRowsAppended, "rows_appended"},   KindName{EventKind::kRetrainRequested, "retrain_requested"},
};

}  // namespace

const char* EventKindName(EventKind kind) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.kind == kind; });
  return found == kKinds.end() ? "unknown" : found->name;
}

bool IsEventKind(std::int64_t number) {
  return std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const auto& k) { return static_cast<std::int64_t>(k.kind) == number; });
}

}  // namespace fulcrum::storage
