// One line of a campaign's log: something that happened.
//
// The log is the only truth of a campaign; everything else is derived from it by CampaignState::Apply. A plain value.
// Kinds and their numbers are part of the file format: add, never change.
#pragma once

#include <cstdint>
#include <string>

#include "storage/clock.h"

namespace fulcrum::storage {

/// What an event is about, and which fields it uses besides sequence, kind and at.
enum class EventKind : std::int64_t {
  kStoreOpened = 1,      ///< number: microseconds since the event before, which do not count for leases and rounds
  kSettingsChanged = 2,  ///< detail: CampaignSettings as text
  kLifeChanged = 3,      ///< value: the new life ("running", "paused", ...), reason
  kBatchCommitted = 10,  ///< round, number: log sequence the batch is based on, detail: the round's files
  kItemBatched = 11,     ///< round, item, number: rank in the batch, cost: what a label of it costs
  kRoundClosed = 12,     ///< round, reason
  kModelStored = 13,     ///< round, number: log sequence trained on, value: file, detail: checksum of the file, reason:
                         ///< what is known of the model, in the words of whoever trained it
  kRowsAppended = 14,    ///< annotator: who, number: rows, value: their folder, detail: what whoever appended answered
  kRetrainRequested = 15,  ///< the next round is to start from nothing
  kLeaseGranted = 20,      ///< annotator, item, slot, epoch, round, number: expiry; its sequence is the lease's id
  kLeaseRenewed = 21,      ///< annotator, lease, epoch, number: expiry
  kLeaseReleased = 22,     ///< annotator, lease, epoch
  kLeaseExpired = 23,      ///< annotator, lease, epoch
  kLabelSubmitted = 30,    ///< annotator, item, slot, lease, epoch, round, value, cost, reason: "late" or nothing
  kLabelChanged = 31,      ///< annotator, item, value
  kLabelWithdrawn = 32,    ///< annotator, item
  kLabelImported = 33,     ///< annotator: where from, item, value
  kTaskSkipped = 40,       ///< annotator, item, slot, lease, epoch, round, reason: a SkipReason
  kItemSetAside = 41,      ///< item, reason
  kItemReturned = 42,      ///< item, annotator: who returned it to the pool
};

/// "lease_granted"; "unknown" for a number that is no kind.
const char* EventKindName(EventKind kind);
bool IsEventKind(std::int64_t number);

struct Event {
  std::int64_t sequence = 0;  ///< from 1, without gaps; set by the log
  EventKind kind = EventKind::kStoreOpened;
  Time at = {};  ///< never before the event before; set by the ledger
  std::string annotator = {};
  std::string request_id = {};   ///< empty where the event came from the store itself
  std::int64_t fingerprint = 0;  ///< of the request's content
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string value = {};
  std::string reason = {};
  double cost = 0;
  std::int64_t number = 0;
  std::string detail = {};

  bool operator==(const Event&) const = default;
};

}  // namespace fulcrum::storage
