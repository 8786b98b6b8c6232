#include "storage/commit/campaign_writer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/log/schema.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/round_rules.h"

namespace fulcrum::storage {
namespace {

// Rows of so many items are written in a few milliseconds; nobody is answered meanwhile.
constexpr std::size_t kItemsAtOnce = 512;

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
                           SqliteDatabase::Open(folder.database(), {.check_integrity = options.check_integrity}));
  std::unique_ptr<CampaignWriter> writer(new CampaignWriter(folder, options, std::move(lock), std::move(database)));
  FULCRUM_RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

absl::Status CampaignWriter::Prepare() {
  FULCRUM_RETURN_IF_ERROR(Migrate(database_));
  database_.AllowOnlyAppendingTo(kEventTable);
  FULCRUM_ASSIGN_OR_RETURN(tables_, DerivedTables::Open(database_));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t through, tables_->Through());
  FULCRUM_ASSIGN_OR_RETURN(HighWaterFile high_water, HighWaterFile::Open(folder_.high_water()));
  const Clock& clock = options_.clock != nullptr ? *options_.clock : own_clock_;
  FULCRUM_ASSIGN_OR_RETURN(ledger_, Ledger::Open(database_, clock, through));
  group_commit_.emplace(database_, *ledger_);
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
    alive = group_commit_->Run(group, results_);
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
    // At once, so that its memory serves the next operation, which the answer may have brought.
    group[i].reset();
  }
}

absl::Status CampaignWriter::Flush() {
  for (bool more = true; more;) {
    FULCRUM_ASSIGN_OR_RETURN(more, FlushSome());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CampaignWriter::FlushSome() {
  FULCRUM_RETURN_IF_ERROR(health());
  if (ledger_->changes_after() == ledger_->state().last_sequence()) {
    high_water_->Sync().IgnoreError();  // it is tried again, and nothing depends on it but a check
    return false;
  }
  ChangedItems& changed = ledger_->changed_items();
  const std::vector<const Item*> items = changed.Take(kItemsAtOnce);
  const bool last = changed.empty();
  const absl::Status status = WriteTables(items, last);
  if (status.ok()) {
    if (last) ledger_->TablesAreUpToDate();
    return !last;
  }
  for (const Item* item : items) changed.Add(*item);
  if (!absl::IsResourceExhausted(status) && !absl::IsUnavailable(status)) End(status);
  return status;
}

absl::Status CampaignWriter::WriteTables(const std::vector<const Item*>& items, bool last) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database_));
  FULCRUM_RETURN_IF_ERROR(tables_->WriteItems(ledger_->state(), items));
  if (last) FULCRUM_RETURN_IF_ERROR(tables_->Finish(ledger_->state()));
  return transaction.Commit();
}

absl::Status CampaignWriter::NoteLostEvents() {
  const auto known = HighWaterFile::Read(folder_.high_water());
  const absl::Status status = known.ok() ? CheckHighWater(ledger_->log(), *known) : known.status();
  if (!absl::IsDataLoss(status)) return status;
  return ReplaceFile(folder_.lost_events(), absl::StrCat("before the campaign was opened at ",
                                                         FormatUtc(ledger_->Now()), ": ", status.message(), "\n"));
}

void CampaignWriter::RecordHighWater() {
  // The labels are safe without it, so a failure must not fail the commit.
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
                                        " Start again; all that was answered is there."));
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
