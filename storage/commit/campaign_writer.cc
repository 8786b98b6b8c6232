#include "storage/commit/campaign_writer.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/log/event_log.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/round_rules.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {
namespace {

/// Whether a retry may succeed, because nothing is wrong with what is on disk.
bool IsTemporary(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

/// Whether the operation itself is the cause: a value that SQLite does not accept, an event that the state refuses.
bool IsOwnFault(const absl::Status& status) {
  if (!SqliteExtendedCode(status).has_value()) return true;
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status);
}

}  // namespace

CampaignWriter::CampaignWriter(CampaignFolder folder, StoreOptions options, FileLock lock, SqliteDatabase database)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      lock_(std::move(lock)),
      database_(std::move(database)) {}

absl::StatusOr<std::unique_ptr<CampaignWriter>> CampaignWriter::Open(const CampaignFolder& folder,
                                                                     const StoreOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(FileLock lock, LockCampaign(folder));
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database,
                           SqliteDatabase::Open(folder.database(), {.check_integrity = false}));
  std::unique_ptr<CampaignWriter> writer(new CampaignWriter(folder, options, std::move(lock), std::move(database)));
  FULCRUM_RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

absl::Status CampaignWriter::Prepare() {
  FULCRUM_RETURN_IF_ERROR(Migrate(database_));
  database_.AllowOnlyAppendingTo(kEventTable);
  FULCRUM_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(database_));
  FULCRUM_ASSIGN_OR_RETURN(HighWaterFile high_water, HighWaterFile::Open(folder_.high_water()));
  FULCRUM_ASSIGN_OR_RETURN(ledger_, Ledger::Open(database_, *checkpoint_, clock()));
  high_water_.emplace(std::move(high_water));
  Publish();
  return absl::OkStatus();
}

absl::Status CampaignWriter::RecordCreation(const CampaignSettings& settings) {
  if (ledger_->state().last_sequence() > 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", folder_.path(), "' holds a campaign already; choose another folder"));
  }
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database_));
  FULCRUM_RETURN_IF_ERROR(ChangeSettings(*ledger_, {.settings = settings}).status());
  FULCRUM_RETURN_IF_ERROR(ledger_->Append({.body = StoreOpened{}}).status());
  FULCRUM_RETURN_IF_ERROR(transaction.Commit());
  RecordHighWater();
  Publish();
  return absl::OkStatus();
}

absl::Status CampaignWriter::RecordOpening() {
  if (ledger_->state().last_sequence() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder_.path(), "' has an empty log: making the campaign was interrupted; make it again"));
  }
  FULCRUM_RETURN_IF_ERROR(NoteLostEvents());
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database_));
  FULCRUM_RETURN_IF_ERROR(ledger_->AppendOpening().status());
  FULCRUM_RETURN_IF_ERROR(transaction.Commit());
  RecordHighWater();
  Publish();
  return absl::OkStatus();
}

void CampaignWriter::Commit(OperationGroup& group) {
  const std::int64_t before = ledger_->state().last_sequence();
  const auto begun = std::chrono::steady_clock::now();
  absl::Status alive = health();
  if (alive.ok()) {
    alive = WriteGroup(group);
    if (!alive.ok()) End(alive);
  }
  if (alive.ok() && ledger_->state().last_sequence() != before) {
    RecordHighWater();
    Publish();
    if (options_.on_commit_time) options_.on_commit_time(std::chrono::steady_clock::now() - begun);
    if (options_.on_commit) options_.on_commit(*status());
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i]->Answer(alive.ok() ? results_[i] : health());
    // At once, so that its memory is used for the next operation, which the answer may have caused.
    group[i].reset();
  }
}

absl::Status CampaignWriter::WriteGroup(const OperationGroup& group) {
  results_.assign(group.size(), absl::OkStatus());
  std::vector<bool> left_out(group.size(), false);
  for (;;) {
    std::optional<std::size_t> failed;
    absl::Status status;
    {
      absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::BeginWrite(database_);
      ledger_->Begin();
      status = transaction.status();
      if (status.ok()) {
        const std::int64_t before = ledger_->state().last_sequence();
        failed = RunOperations(group, left_out);
        if (failed) status = results_[*failed];
        const bool wrote = ledger_->state().last_sequence() != before;
        // Queries and refusals write nothing, and need no commit.
        if (!failed && wrote) status = transaction->Commit();
      }
      if (status.ok() && !failed) {
        ledger_->Accept();
        return absl::OkStatus();
      }
    }
    ledger_->RollBack();
    if (!checkpoint_->damage().ok()) {
      FULCRUM_RETURN_IF_ERROR(ledger_->RepairState());
      continue;
    }
    if (!IsTemporary(status) && !IsOwnFault(status)) return status;
    if (failed && IsOwnFault(status)) {
      left_out[*failed] = true;
      continue;
    }
    std::fill(results_.begin(), results_.end(), status);
    return absl::OkStatus();
  }
}

std::optional<std::size_t> CampaignWriter::RunOperations(const OperationGroup& group,
                                                         const std::vector<bool>& left_out) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (left_out[i]) continue;
    results_[i] = ExpireDueLeases(*ledger_);
    if (results_[i].ok()) results_[i] = group[i]->Run(*ledger_);
    if (ledger_->broken()) return i;
  }
  return std::nullopt;
}

absl::Status CampaignWriter::WriteCheckpoint() {
  for (bool more = true; more;) {
    FULCRUM_ASSIGN_OR_RETURN(more, WriteSomeOfCheckpoint());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CampaignWriter::WriteSomeOfCheckpoint() {
  FULCRUM_RETURN_IF_ERROR(health());
  const absl::StatusOr<bool> more = ledger_->WriteCheckpoint();
  // It is tried again, and only a check depends on it.
  if (more.ok() && !*more) high_water_->Sync().IgnoreError();
  if (!more.ok() && !IsTemporary(more.status())) End(more.status());
  return more;
}

absl::Status CampaignWriter::NoteLostEvents() {
  std::ostringstream noted;
  noted << std::ifstream(folder_.lost_events(), std::ios::binary).rdbuf();
  findings_.lost_events = noted.str();
  const auto known = HighWaterFile::Read(folder_.high_water());
  // It says nothing about the log, and is written again with the next commit.
  if (!known.ok()) findings_.warning = std::string(known.status().message());
  const absl::Status status = known.ok() ? CheckHighWater(ledger_->log(), *known) : absl::OkStatus();
  if (!absl::IsDataLoss(status)) return status;
  // If the opening fails after this, the next one finds the same loss.
  if (absl::StrContains(findings_.lost_events, status.message())) return absl::OkStatus();
  absl::StrAppend(&findings_.lost_events, "before the campaign was opened at ", FormatUtc(ledger_->Now()), ": ",
                  status.message(), "\n");
  return ReplaceFile(folder_.lost_events(), findings_.lost_events);
}

void CampaignWriter::RecordHighWater() {
  // No label depends on it, so a failure must not fail the commit.
  high_water_->Record(ledger_->log().last_appended()).IgnoreError();
}

CampaignWriter::~CampaignWriter() {
  if (!ledger_.has_value() || !health().ok()) return;
  high_water_->Sync().IgnoreError();
  // A long-running reader prevents it; the next process that opens the campaign does it then.
  database_.Execute("PRAGMA busy_timeout=1000").IgnoreError();
  database_.Checkpoint().IgnoreError();
}

void CampaignWriter::Publish() {
  auto status = std::make_shared<const CampaignStatus>(StatusOf(ledger_->state()));
  const std::scoped_lock lock(mutex_);
  published_ = std::move(status);
}

void CampaignWriter::End(const absl::Status& cause) {
  {
    const std::scoped_lock lock(mutex_);
    health_ = absl::Status(absl::StatusCode::kInternal,
                           absl::StrCat("the store of campaign '", folder_.path(),
                                        "' ended, because it is unclear what is on disk: ", cause.message(),
                                        " Start again; everything that was answered is on disk."));
  }
  if (options_.on_fatal) options_.on_fatal(health());
}

std::shared_ptr<const CampaignStatus> CampaignWriter::status() const {
  const std::scoped_lock lock(mutex_);
  return published_;
}

absl::Status CampaignWriter::health() const {
  const std::scoped_lock lock(mutex_);
  return health_;
}

}  // namespace fulcrum::storage
