#include "storage/campaign_store.h"

#include <algorithm>
#include <future>

#include "stages/core/status_macros.h"
#include "storage/commit/campaign_writer.h"
#include "storage/rules/lease_rules.h"

namespace fulcrum::storage {
namespace {

// Beyond so many events the next checkpoint is written although there is other work, a little with every commit. So
// many are replayed in less than a second.
constexpr std::int64_t kMostEventsAfterCheckpoint = 200'000;

struct Nothing {};

/// Leases that are due end before any rule runs, so there is nothing left to do.
absl::StatusOr<Nothing> ExpireRule(Ledger&, const Nothing&) {
  return Nothing{};
}

/// Waits for its turn in the queue, and does its work after the commit of its group.
class CheckpointOperation final : public Operation {
 public:
  CheckpointOperation(CampaignWriter& writer, std::promise<absl::Status> done)
      : writer_(writer), done_(std::move(done)) {}
  absl::Status Run(Ledger&) override { return absl::OkStatus(); }
  void Answer(const absl::Status& status) override {
    done_.set_value(status.ok() ? writer_.WriteCheckpoint() : status);
  }

 private:
  CampaignWriter& writer_;
  std::promise<absl::Status> done_;
};

}  // namespace

CampaignStore::CampaignStore(std::unique_ptr<CampaignWriter> writer, const CommitQueueOptions& options)
    : writer_(std::move(writer)) {
  const auto commit = [this](OperationGroup& group) {
    writer_->Commit(group);
    const Ledger& ledger = writer_->ledger();
    // A failure is reported by health(), or is temporary and tried again.
    if (ledger.state().last_sequence() - ledger.checkpoint_sequence() > kMostEventsAfterCheckpoint) {
      writer_->WriteSomeOfCheckpoint().IgnoreError();
      NoteCheckpoint();
    }
  };
  const auto idle = [this] {
    const bool more = writer_->WriteSomeOfCheckpoint().value_or(false);
    NoteCheckpoint();
    return more;
  };
  NoteCheckpoint();
  queue_ = std::make_unique<CommitQueue>(options, commit, idle);
}

void CampaignStore::NoteCheckpoint() {
  checkpoint_sequence_ = writer_->ledger().checkpoint_sequence();
}

std::int64_t CampaignStore::events_since_checkpoint() const {
  return std::max<std::int64_t>(0, writer_->status()->last_sequence - checkpoint_sequence_);
}

CampaignStore::~CampaignStore() {
  queue_.reset();
}

absl::StatusOr<std::unique_ptr<CampaignStore>> CampaignStore::Create(const std::string& folder,
                                                                     const CampaignSettings& settings,
                                                                     StoreOptions options) {
  FULCRUM_RETURN_IF_ERROR(CheckSettings(settings));
  const CampaignFolder campaign(folder);
  FULCRUM_RETURN_IF_ERROR(campaign.Create());
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<CampaignWriter> writer, CampaignWriter::Open(campaign, options));
  FULCRUM_RETURN_IF_ERROR(writer->RecordCreation(settings));
  return std::unique_ptr<CampaignStore>(new CampaignStore(std::move(writer), options.queue));
}

absl::StatusOr<std::unique_ptr<CampaignStore>> CampaignStore::Open(const std::string& folder, StoreOptions options) {
  const CampaignFolder campaign(folder);
  FULCRUM_RETURN_IF_ERROR(campaign.Check());
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<CampaignWriter> writer, CampaignWriter::Open(campaign, options));
  FULCRUM_RETURN_IF_ERROR(writer->RecordOpening());
  return std::unique_ptr<CampaignStore>(new CampaignStore(std::move(writer), options.queue));
}

void CampaignStore::Enqueue(std::unique_ptr<Operation> operation, Turn turn) {
  absl::Status status = health();
  if (status.ok()) status = queue_->Push(operation, turn);
  if (!status.ok()) operation->Answer(status);
}

absl::Status CampaignStore::ExpireLeases() {
  return Run(ExpireRule, Nothing{}).status();
}

absl::Status CampaignStore::WriteCheckpoint() {
  std::promise<absl::Status> promise;
  std::future<absl::Status> future = promise.get_future();
  Enqueue(std::make_unique<CheckpointOperation>(*writer_, std::move(promise)));
  return future.get();
}

std::shared_ptr<const CampaignStatus> CampaignStore::status() const {
  return writer_->status();
}

absl::Status CampaignStore::health() const {
  return writer_->health();
}

Time CampaignStore::Now() const {
  return writer_->Now();
}

const OpeningFindings& CampaignStore::opening_findings() const {
  return writer_->findings();
}

const CampaignFolder& CampaignStore::folder() const {
  return writer_->folder();
}

std::size_t CampaignStore::queued() const {
  return queue_->size();
}

}  // namespace fulcrum::storage
