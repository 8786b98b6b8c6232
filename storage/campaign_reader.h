// Reads a campaign while somebody else writes it, or nobody does.
//
// A reader has a connection of its own and follows the log at its own pace: what it sees is what was committed, and it
// holds nobody up. One thread at a time; open one for each thread that reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

class CampaignReader {
 public:
  /// NotFound without a campaign, FailedPrecondition for a schema this program does not know.
  static absl::StatusOr<std::unique_ptr<CampaignReader>> Open(const std::string& folder);
  CampaignReader(const CampaignReader&) = delete;
  CampaignReader& operator=(const CampaignReader&) = delete;

  /// Applies what was committed since, up to event `through`; a state that is past it stays.
  absl::Status CatchUp(std::int64_t through = kEndOfLog);
  /// As of the last CatchUp.
  const CampaignState& state() const { return state_; }

  /// The labels that a model trained on the log up to `sequence` is a function of, in the order they were decided.
  absl::StatusOr<std::vector<DecidedLabel>> LabelsAt(std::int64_t sequence);
  /// Events in order, until `visit` says something other than OK.
  absl::Status VisitEvents(std::int64_t first, std::int64_t last,
                           const std::function<absl::Status(const Event&)>& visit);

  /// The last events that name an item, at most so many, in order. Looks through the whole log.
  absl::StatusOr<std::vector<EventRow>> EventsOfItem(const std::string& item, std::size_t most);

  const CampaignFolder& folder() const { return folder_; }
  SqliteDatabase& database() { return database_; }

 private:
  CampaignReader(CampaignFolder folder, SqliteDatabase database);

  const CampaignFolder folder_;
  SqliteDatabase database_;
  std::unique_ptr<EventLog> log_;
  CampaignState state_;
};

}  // namespace fulcrum::storage
