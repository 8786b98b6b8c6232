// Rules for the rows of a stream: what was decided about them, and when they become part of the pool.
//
// Run by the store like the lease rules. What is decided is up to the caller, who keeps the state of its decisions in
// the records of the log: a campaign has one such caller, and its decisions are a function of its records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

/// Rows that came with one request.
struct OfferedGroup {
  std::string by = {};  ///< who offers them
  std::string request_id = {};
  std::string content = {};  ///< of the request, by which a repeated one is recognized
  std::int64_t rows = 0;     ///< that were decided
  std::vector<ItemTaken> taken = {};
  std::int64_t kept = 0;  ///< that are to join the pool, the taken ones included
  std::int64_t alarms = 0;
  std::int64_t model = 0;
  bool complete = false;
  std::string record = {};
};

/// The record of the same request if it took effect before; nothing for a new one. AlreadyExists if its id was used for
/// another request.
absl::StatusOr<std::optional<std::string>> FindOffer(Ledger& ledger, const OfferedGroup& group);

struct OfferRowsRequest {
  std::int64_t after = 0;  ///< rows that were decided before, as the caller knows
  std::vector<OfferedGroup> groups = {};
};
/// All of them or none; returns the sequence of the last record. Aborted, with the log as it was, if the caller does
/// not know all decisions, if a request took effect meanwhile, or if an item has become part of a batch.
/// FailedPrecondition unless the campaign is running.
absl::StatusOr<std::int64_t> OfferRows(Ledger& ledger, const OfferRowsRequest& request);

struct StoreOfferedRequest {
  std::string folder = {};  ///< relative to that of the campaign; not used without rows
  std::int64_t rows = 0;    ///< in it
  std::int64_t through = 0;
};
/// The rows are in a folder of their own, which is complete and synced before the log mentions it.
absl::StatusOr<std::int64_t> StoreOfferedRows(Ledger& ledger, const StoreOfferedRequest& request);

struct StoredOffer {
  std::int64_t sequence = 0;
  RowsOffered offered = {};
};
struct OfferRecordsRequest {};
struct OfferRecordsAnswer {
  OfferedFigures figures = {};
  std::vector<StoredOffer> records = {};
};
/// What decisions continue with: the records since the last one with the whole state, it included, and those with rows
/// that are not stored yet.
absl::StatusOr<OfferRecordsAnswer> ReadOffers(Ledger& ledger, const OfferRecordsRequest& request);

}  // namespace fulcrum::storage
