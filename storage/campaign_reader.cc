#include "storage/campaign_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/log/event_log.h"
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
  reader->has_checkpoint_ = HasCheckpoint(version);
  return reader;
}

absl::StatusOr<CampaignSettings> CampaignReader::Settings() {
  std::string text;
  std::int64_t last = 0;
  // One snapshot: the checkpoint and the log after it.
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(database_));
  if (has_checkpoint_) {
    FULCRUM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(database_));
    if (checkpoint->Load().ok() && checkpoint->position().sequence > 0) {
      text = checkpoint->figures().at("settings");
      last = checkpoint->position().sequence;
    }
  }
  FULCRUM_RETURN_IF_ERROR(log_->VisitRows(last + 1, kEndOfLog, [&](EventRow row) {
    if (row.kind == EventKind::kSettingsChanged) text = std::move(row.detail);
    return absl::OkStatus();
  }));
  if (text.empty()) return CampaignSettings();
  return SettingsFromText(text);
}

absl::StatusOr<CampaignState> CampaignReader::ReadCheckpoint(std::int64_t through) {
  if (!has_checkpoint_) return CampaignState();
  // All rows are read in one snapshot, since the writer replaces them.
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(database_));
  FULCRUM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(database_));
  FULCRUM_ASSIGN_OR_RETURN(CampaignState state, LoadCheckpoint(*checkpoint, *log_));
  if (state.last_sequence() > through || !state.LoadAll(*checkpoint).ok()) return CampaignState();
  return state;
}

absl::Status CampaignReader::CatchUp(std::int64_t through) {
  bool from_checkpoint = false;
  if (state_.last_sequence() == 0) {
    FULCRUM_ASSIGN_OR_RETURN(state_, ReadCheckpoint(through));
    from_checkpoint = state_.last_sequence() > 0;
  }
  absl::Status status = ReplayLog(*log_, state_, through);
  // A checkpoint that the log does not fit is damaged; the log decides.
  if (absl::IsDataLoss(status) && from_checkpoint) {
    state_ = CampaignState();
    status = ReplayLog(*log_, state_, through);
  }
  // What changed matters to checkpoints only.
  state_.ForgetChanges();
  return status;
}

absl::StatusOr<std::vector<DecidedLabel>> CampaignReader::LabelsAt(std::int64_t sequence) {
  FULCRUM_RETURN_IF_ERROR(CatchUp(sequence));
  if (state_.last_sequence() == sequence) return state_.items().DecidedLabels();
  if (state_.last_sequence() < sequence) {
    return absl::OutOfRangeError(
        absl::StrCat("the log ends with event ", state_.last_sequence(), "; ", sequence, " is yet to come"));
  }
  CampaignState earlier;
  FULCRUM_RETURN_IF_ERROR(ReplayLog(*log_, earlier, sequence));
  return earlier.items().DecidedLabels();
}

absl::Status CampaignReader::VisitEvents(std::int64_t first, std::int64_t last,
                                         const std::function<absl::Status(const Event&)>& visit) {
  return log_->Visit(first, last, visit);
}

absl::StatusOr<std::vector<EventRow>> CampaignReader::EventsOfItem(const std::string& item, std::size_t most) {
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(database_));
  if (!has_checkpoint_) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder_.database(), " is of an older version; histories can be read once a daemon has opened it"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(database_));
  // Without one that can be used, the whole log is looked through.
  if (const absl::Status loaded = checkpoint->Load(); !loaded.ok()) checkpoint->Ignore();
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sequences, checkpoint->EventsOfItem(item, most));
  std::vector<EventRow> events;
  for (const std::int64_t sequence : sequences) {
    FULCRUM_ASSIGN_OR_RETURN(Event event, log_->Find(sequence));
    events.push_back(EncodeEvent(std::move(event)));
  }
  return events;
}

}  // namespace fulcrum::storage
