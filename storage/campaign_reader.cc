#include "storage/campaign_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/log/schema.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

CampaignReader::CampaignReader(CampaignFolder folder, SqliteDatabase database)
    : folder_(std::move(folder)), database_(std::move(database)) {}

absl::StatusOr<std::unique_ptr<CampaignReader>> CampaignReader::Open(const std::string& path) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database,
                           SqliteDatabase::Open(folder.database(), {.read_only = true, .check_integrity = false}));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t version, CheckSchema(database));
  if (version < OldestReadableSchemaVersion()) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder.database(), " has schema version ", version, " and this program reads versions from ",
        OldestReadableSchemaVersion(), "; an older campaign is upgraded when it is opened for writing or rebuilt"));
  }
  std::unique_ptr<CampaignReader> reader(new CampaignReader(folder, std::move(database)));
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(reader->database_));
  reader->log_ = std::make_unique<EventLog>(std::move(log));
  return reader;
}

absl::Status CampaignReader::CatchUp(std::int64_t through) {
  FULCRUM_RETURN_IF_ERROR(
      log_->Visit(state_.last_sequence() + 1, through, [&](const Event& event) { return state_.Apply(event); }));
  // What changed is of interest to the derived tables only.
  state_.ForgetChanges();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DecidedLabel>> CampaignReader::LabelsAt(std::int64_t sequence) {
  FULCRUM_RETURN_IF_ERROR(CatchUp(sequence));
  if (state_.last_sequence() == sequence) return state_.items().DecidedLabels();
  if (state_.last_sequence() < sequence) {
    return absl::OutOfRangeError(
        absl::StrCat("the log ends with event ", state_.last_sequence(), "; ", sequence, " is yet to come"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const CampaignState earlier, ReplayLog(*log_, sequence));
  return earlier.items().DecidedLabels();
}

absl::Status CampaignReader::VisitEvents(std::int64_t first, std::int64_t last,
                                         const std::function<absl::Status(const Event&)>& visit) {
  return log_->Visit(first, last, visit);
}

absl::StatusOr<std::vector<EventRow>> CampaignReader::EventsOfItem(const std::string& item, std::size_t most) {
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_.Prepare("SELECT sequence FROM event WHERE item = ?1 ORDER BY sequence DESC LIMIT ?2"));
  FULCRUM_RETURN_IF_ERROR(select.Bind(1, item));
  FULCRUM_RETURN_IF_ERROR(select.Bind(2, static_cast<std::int64_t>(most)));
  std::vector<EventRow> events;
  while (true) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    FULCRUM_ASSIGN_OR_RETURN(Event event, log_->Find(select.ColumnInt64(0)));
    events.push_back(EncodeEvent(std::move(event)));
  }
  std::reverse(events.begin(), events.end());
  return events;
}

}  // namespace fulcrum::storage
