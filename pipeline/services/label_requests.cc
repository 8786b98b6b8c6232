#include "pipeline/services/label_requests.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "storage/label_rules.h"
#include "storage/lease_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kLongestRequestId = 128;
constexpr int kMostParts = 1000;

v1::ItemStatus ToItemStatus(const absl::Status& status) {
  v1::ItemStatus item;
  item.set_code(static_cast<int>(status.code()));
  item.set_message(std::string(status.message()));
  return item;
}

/// An answer that is complete when its last part is. Parts write to their own place only.
template <typename Response>
class Gathering {
 public:
  Gathering(int parts, std::function<void(Response)> done) : left_(parts), done_(std::move(done)) {}
  Response& response() { return response_; }
  void FinishPart() {
    if (left_.fetch_sub(1) == 1) done_(std::move(response_));
  }

 private:
  Response response_;
  std::atomic<int> left_;
  const std::function<void(Response)> done_;
};

/// One place a part, and one part more than the request has: the caller's own, so that it is complete only after all
/// parts were started, and also where there are none.
template <typename Response, typename Request>
std::shared_ptr<Gathering<Response>> Gather(const Request& parts, std::function<void(Response)> done) {
  auto gathering = std::make_shared<Gathering<Response>>(parts.size() + 1, std::move(done));
  for (int i = 0; i < parts.size(); ++i) gathering->response().add_results();
  return gathering;
}

std::string PartId(const std::string& request_id, int part) {
  return absl::StrCat(request_id, "/", part);
}

storage::LeaseRequest LeaseRequestOf(const std::string& annotator, const std::string& request_id, int part,
                                     const v1::LeaseRef& lease) {
  return {.annotator = annotator,
          .request_id = PartId(request_id, part),
          .lease = lease.lease_id(),
          .epoch = lease.epoch()};
}

absl::Status CheckValue(const CampaignPlan& plan, const std::string& value) {
  if (std::find(plan.classes.begin(), plan.classes.end(), value) != plan.classes.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", value.substr(0, 100), "' is not one of the classes: ", absl::StrJoin(plan.classes, ", ")));
}

absl::Status CheckChange(const CampaignPlan& plan, const v1::LabelChange& change) {
  if (change.has_value()) return CheckValue(plan, change.value());
  if (change.withdraw()) return absl::OkStatus();
  return absl::InvalidArgumentError("a change needs a new value, or 'withdraw'");
}

absl::StatusOr<storage::SkipReason> ReasonOf(v1::SkipReason reason) {
  switch (reason) {
    case v1::SKIP_REASON_UNSURE:
      return storage::SkipReason::kUnsure;
    case v1::SKIP_REASON_BAD_ITEM:
      return storage::SkipReason::kBadItem;
    case v1::SKIP_REASON_NOT_NOW:
      return storage::SkipReason::kNotNow;
    default:
      return absl::InvalidArgumentError("a skip needs a reason: unsure, bad item or not now");
  }
}

}  // namespace

absl::Status CheckRequest(const std::string& request_id, int parts) {
  if (request_id.empty() || request_id.size() > kLongestRequestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("'request_id' must have 1 to ", kLongestRequestId,
                     " characters; make a new one for every request, and repeat it only with the request"));
  }
  if (parts > kMostParts) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", parts, " parts; send at most ", kMostParts, " at a time"));
  }
  return absl::OkStatus();
}

void SubmitLabels(Campaign& campaign, const std::string& annotator, const v1::SubmitLabelsRequest& request,
                  std::function<void(v1::SubmitLabelsResponse)> done) {
  const auto gathering = Gather(request.labels(), std::move(done));
  for (int i = 0; i < request.labels_size(); ++i) {
    const v1::Label& label = request.labels(i);
    const auto take = [gathering, i](const absl::StatusOr<storage::LabelAnswer>& answer) {
      auto& result = *gathering->response().mutable_results(i);
      *result.mutable_status() = ToItemStatus(answer.status());
      if (answer.ok()) {
        result.set_sequence(answer->sequence);
        result.set_late(answer->late);
      }
      gathering->FinishPart();
    };
    if (const absl::Status status = CheckValue(campaign.plan(), label.value()); !status.ok()) {
      take(status);
      continue;
    }
    campaign.store().Start(storage::SubmitLabel,
                           {.annotator = annotator,
                            .request_id = PartId(request.request_id(), i),
                            .lease = label.lease().lease_id(),
                            .epoch = label.lease().epoch(),
                            .item = label.item_id(),
                            .value = label.value()},
                           take);
  }
  gathering->FinishPart();
}

void ChangeLabels(Campaign& campaign, const std::string& annotator, const v1::ChangeLabelsRequest& request,
                  std::function<void(v1::ChangeLabelsResponse)> done) {
  const auto gathering = Gather(request.changes(), std::move(done));
  for (int i = 0; i < request.changes_size(); ++i) {
    const v1::LabelChange& change = request.changes(i);
    const auto take = [gathering, i](const absl::StatusOr<storage::LabelAnswer>& answer) {
      auto& result = *gathering->response().mutable_results(i);
      *result.mutable_status() = ToItemStatus(answer.status());
      if (answer.ok()) result.set_sequence(answer->sequence);
      gathering->FinishPart();
    };
    if (const absl::Status status = CheckChange(campaign.plan(), change); !status.ok()) {
      take(status);
      continue;
    }
    campaign.store().Start(change.has_value() ? storage::ChangeLabel : storage::WithdrawLabel,
                           {.annotator = annotator,
                            .request_id = PartId(request.request_id(), i),
                            .item = change.item_id(),
                            .value = change.value()},
                           take);
  }
  gathering->FinishPart();
}

void SkipTasks(Campaign& campaign, const std::string& annotator, const v1::SkipTasksRequest& request,
               std::function<void(v1::SkipTasksResponse)> done) {
  const auto gathering = Gather(request.skips(), std::move(done));
  for (int i = 0; i < request.skips_size(); ++i) {
    const v1::Skip& skip = request.skips(i);
    const auto take = [gathering, i](const absl::StatusOr<storage::LabelAnswer>& answer) {
      *gathering->response().mutable_results(i) = ToItemStatus(answer.status());
      gathering->FinishPart();
    };
    const auto reason = ReasonOf(skip.reason());
    if (!reason.ok()) {
      take(reason.status());
      continue;
    }
    campaign.store().Start(storage::SkipTask,
                           {.annotator = annotator,
                            .request_id = PartId(request.request_id(), i),
                            .lease = skip.lease().lease_id(),
                            .epoch = skip.lease().epoch(),
                            .reason = *reason},
                           take);
  }
  gathering->FinishPart();
}

void ReleaseTasks(Campaign& campaign, const std::string& annotator, const v1::ReleaseTasksRequest& request,
                  std::function<void(v1::ReleaseTasksResponse)> done) {
  const auto gathering = Gather(request.leases(), std::move(done));
  for (int i = 0; i < request.leases_size(); ++i) {
    campaign.store().Start(storage::ReleaseLease, LeaseRequestOf(annotator, request.request_id(), i, request.leases(i)),
                           [gathering, i](const absl::StatusOr<storage::ReleaseAnswer>& answer) {
                             *gathering->response().mutable_results(i) = ToItemStatus(answer.status());
                             gathering->FinishPart();
                           });
  }
  gathering->FinishPart();
}

void RenewLeases(Campaign& campaign, const std::string& annotator, const v1::RenewLeasesRequest& request,
                 std::function<void(v1::RenewLeasesResponse)> done) {
  const auto gathering = Gather(request.leases(), std::move(done));
  for (int i = 0; i < request.leases_size(); ++i) {
    campaign.store().Start(storage::RenewLease, LeaseRequestOf(annotator, request.request_id(), i, request.leases(i)),
                           [gathering, i](const absl::StatusOr<storage::RenewAnswer>& answer) {
                             auto& result = *gathering->response().mutable_results(i);
                             *result.mutable_status() = ToItemStatus(answer.status());
                             if (answer.ok()) {
                               *result.mutable_expires_at() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
                                   storage::ToMicros(answer->expires_at));
                             }
                             gathering->FinishPart();
                           });
  }
  gathering->FinishPart();
}

}  // namespace fulcrum::pipeline
