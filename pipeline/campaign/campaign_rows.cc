// The part of a campaign that is about its rows: appended ones, those of a watched folder and of a stream, and what the
// model says of them.

#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

void Campaign::StartWatch() {
  if (plan_->watch.empty()) return;
  watch_ = std::make_unique<FolderWatch>(WatchedFolder{name_, plan_->watch, services_.pools.root},
                                         [this](const AppendRequest& request) { return TakeFile(request); });
  watch_->Start();
}

absl::Status Campaign::Admit(const CampaignPool& grown, std::size_t first_new) {
  const std::shared_ptr<const CampaignPlan> plan = this->plan();
  FULCRUM_RETURN_IF_ERROR(CheckIdLengths(grown.ids(), first_new));
  RowList added(grown.rows() - first_new);
  std::iota(added.begin(), added.end(), static_cast<RowIndex>(first_new));
  const absl::Status kernels = CheckKernels(plan->round, grown.features(), added);
  for (std::size_t i = 0; !kernels.ok() && i < added.size(); ++i) {
    if (CheckKernels(plan->round, grown.features(), std::span(added).subspan(i, 1)).ok()) continue;
    return absl::Status(kernels.code(), absl::StrCat("the example '", grown.ids().TextOf(added[i]),
                                                     "' cannot be appended: ", kernels.message()));
  }
  return services_.memory == nullptr ? absl::OkStatus() : services_.memory->Grow(name_, grown.bytes(), place_);
}

absl::StatusOr<Appended> Campaign::AppendItems(const AppendRequest& request) {
  EventBroadcaster::Announcement announcement = events_.Announce();
  FULCRUM_ASSIGN_OR_RETURN(Appended appended, appender_->Append(request));
  v1::CampaignEvent event;
  event.mutable_items()->set_added(appended.response.added());
  event.mutable_items()->set_pool_rows(appended.response.pool_rows());
  if (appended.response.added() > 0 && !appended.repeated) {
    events_.PublishChange(std::move(event), store_->status()->last_sequence, std::move(announcement));
  }
  return appended;
}

absl::StatusOr<Appended> Campaign::TakeFile(const AppendRequest& request) {
  if (over()) return absl::CancelledError("the campaign is over");
  // Only the holder of the upload appends.
  FULCRUM_ASSIGN_OR_RETURN(const auto upload, BeginUpload());
  return AppendItems(request);
}

absl::StatusOr<v1::PredictResponse> Campaign::Predict(const v1::PredictRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::StoredModel stored, models_->Find(request.round()));
  if (!ModelProcessOf(stored).empty()) {
    return PredictStored(*plan(), *pool_->now(), store_->folder(), stored, request);
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto model, models_->Load(request.round()));
  return pipeline::Predict(*plan(), *pool_->now(), *model, request);
}

absl::Status Campaign::OpenStream() {
  if (!plan()->stream) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(stream_, CampaignStream::Open([this] { return plan(); }, *pool_, *store_, *appender_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::OfferAnswer>> Campaign::OfferItems(const OfferRequest& request) {
  if (stream_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("campaign '", name_,
                                                      "' takes no rows of a stream; create one with "
                                                      "'selection: {stream: {share: 0.01}}' in its specification"));
  }
  if (closing_) return absl::FailedPreconditionError(absl::StrCat("campaign '", name_, "' is being deleted"));
  return stream_->Offer(request);
}

absl::Status Campaign::StoreOfferedRows() {
  if (stream_ == nullptr) return absl::OkStatus();
  const absl::Status stored = stream_->Store();
  // Rows that others append at the moment may take long. Those of the stream take part from the next round on.
  return absl::IsAborted(stored) ? absl::OkStatus() : stored;
}

absl::Status Campaign::CheckItem(const std::string& item) const {
  const bool waits = stream_ != nullptr && stream_->waiting().Has(item);
  if (waits || pool_->now()->ids().Find(item)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the pool of campaign '", name_, "' has no example '", item, "'"));
}

std::string Campaign::PayloadOf(const std::string& item) const {
  // In this order: a row that is put into files leaves the first when the second has it.
  const auto waiting = stream_ == nullptr ? std::nullopt : stream_->waiting().PayloadOf(item);
  return waiting ? *waiting : pool_->now()->PayloadOf(item);
}

std::string Campaign::PayloadPart(const std::string& item, std::size_t first, std::size_t most) const {
  const auto waiting = stream_ == nullptr ? std::nullopt : stream_->waiting().PayloadOf(item);
  if (!waiting) return pool_->now()->PayloadPart(item, first, most);
  return first < waiting->size() ? waiting->substr(first, most) : std::string();
}

std::size_t Campaign::PayloadBytes(const std::string& item) const {
  const auto waiting = stream_ == nullptr ? std::nullopt : stream_->waiting().PayloadBytes(item);
  return waiting ? *waiting : pool_->now()->PayloadBytes(item);
}

std::int64_t Campaign::PoolRows() const {
  const std::size_t waiting = stream_ == nullptr ? 0 : stream_->waiting().size();
  return static_cast<std::int64_t>(pool_->now()->rows() + waiting);
}

void Campaign::DescribeStream(const storage::OfferedFigures& figures, v1::Campaign& campaign) const {
  if (stream_ == nullptr) return;
  v1::StreamStatus& status = *campaign.mutable_stream();
  status.set_rows(figures.rows);
  status.set_taken(figures.taken);
  status.set_waiting_rows(static_cast<std::int64_t>(stream_->waiting().size()));
  status.set_drift_alarms(figures.alarms);
  status.set_drifting(stream_->drifting());
}

}  // namespace fulcrum::pipeline
