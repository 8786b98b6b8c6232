// Reads a campaign, also while another thread or process writes to it.
//
// A reader has its own connection and sees what was committed; it never blocks the writer. Its state is complete in
// memory, starting from the checkpoint. One thread at a time; open one per thread that reads.
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
  /// NotFound without a campaign, FailedPrecondition for a schema that this program does not know.
  static absl::StatusOr<std::unique_ptr<CampaignReader>> Open(const std::string& folder);
  CampaignReader(const CampaignReader&) = delete;
  CampaignReader& operator=(const CampaignReader&) = delete;

  /// The settings at the end of the log. Reads the checkpoint and the log after it, but derives no state.
  absl::StatusOr<CampaignSettings> Settings();
  /// Applies what was committed since, up to event `through`; a state that is past it stays. The first time starts from
  /// the checkpoint, if that is not past `through`.
  absl::Status CatchUp(std::int64_t through = kEndOfLog);
  /// As of the last CatchUp.
  const CampaignState& state() const { return state_; }

  /// The labels that a model trained on the log up to `sequence` is a function of, in the order in which they were
  /// decided.
  absl::StatusOr<std::vector<DecidedLabel>> LabelsAt(std::int64_t sequence);
  /// Events in order, until `visit` returns something other than OK.
  absl::Status VisitEvents(std::int64_t first, std::int64_t last,
                           const std::function<absl::Status(const Event&)>& visit);

  /// The last events that name an item, at most so many, in order. Reads the events of the item, and
  /// looks through those after the checkpoint.
  absl::StatusOr<std::vector<EventRow>> EventsOfItem(const std::string& item, std::size_t most);

  const CampaignFolder& folder() const { return folder_; }
  SqliteDatabase& database() { return database_; }

 private:
  CampaignReader(CampaignFolder folder, SqliteDatabase database);
  /// The state that the checkpoint stores, complete; an empty one without a usable checkpoint.
  absl::StatusOr<CampaignState> ReadCheckpoint(std::int64_t through);

  const CampaignFolder folder_;
  SqliteDatabase database_;
  std::unique_ptr<EventLog> log_;
  bool has_checkpoint_ = false;  ///< the schema has the tables
  CampaignState state_;
};

}  // namespace fulcrum::storage
