#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kLongestRequestId = 128;
constexpr int kMostParts = 1000;

void SetStatus(const absl::Status& status, v1::ItemStatus& item) {
  // The defaults say OK; an empty message would be one more string for every label.
  if (status.ok()) return;
  item.set_code(static_cast<int>(status.code()));
  item.set_message(PrintableText({status.message().data(), status.message().size()}));
}

v1::ItemStatus& StatusOf(v1::ItemStatus& result) {
  return result;
}
template <typename Result>
v1::ItemStatus& StatusOf(Result& result) {
  return *result.mutable_status();
}

/// The parts of a request that are for the store, and where each stands in the request.
template <typename Request>
struct StoreParts {
  std::vector<Request> requests = {};
  std::vector<int> places = {};

  explicit StoreParts(int most) {
    requests.reserve(static_cast<std::size_t>(most));
    places.reserve(static_cast<std::size_t>(most));
  }
  void Add(int place, Request request) {
    places.push_back(place);
    requests.push_back(std::move(request));
  }
};

/// Makes a place for each part, so that the threads which fill them allocate nothing.
template <typename Response>
void MakePlaces(int parts, Response& response) {
  response.mutable_results()->Reserve(parts);
  for (int i = 0; i < parts; ++i) StatusOf(*response.add_results());
}

/// Has the store carry out the parts; `fill` writes what is known of one that was taken into its place.
template <typename Request, typename Answer, typename Response, typename Fill>
void RunParts(const LabelRequester& requester, storage::CampaignStore::Rule<Request, Answer> rule,
              StoreParts<Request> parts, Response& response, std::function<void()> done, Fill fill) {
  requester.campaign.store().StartAll(rule, std::move(parts.requests),
                                      [&replies = requester.replies, places = std::move(parts.places), &response,
                                       done = std::move(done), fill](std::vector<absl::StatusOr<Answer>> answers) {
                                        // Not on the store's thread, which has others to serve.
                                        replies.Post([places, &response, done, fill, answers = std::move(answers)] {
                                          for (std::size_t i = 0; i < places.size(); ++i) {
                                            auto& result = *response.mutable_results(places[i]);
                                            SetStatus(answers[i].status(), StatusOf(result));
                                            if (answers[i].ok()) fill(*answers[i], result);
                                          }
                                          done();
                                        });
                                      });
}

std::string PartId(const std::string& request_id, int part) {
  return absl::StrCat(request_id, "/", part);
}

/// Of a request that names leases and nothing else.
template <typename Request>
StoreParts<storage::LeaseRequest> PartsOf(const std::string& annotator, const Request& request) {
  StoreParts<storage::LeaseRequest> parts(request.leases_size());
  for (int i = 0; i < request.leases_size(); ++i) {
    parts.Add(i, {.annotator = annotator,
                  .request_id = PartId(request.request_id(), i),
                  .lease = request.leases(i).lease_id(),
                  .epoch = request.leases(i).epoch()});
  }
  return parts;
}

/// A change without a new value takes the label back.
absl::StatusOr<storage::LabelAnswer> ChangeOrWithdraw(storage::Ledger& ledger, const storage::ChangeRequest& change) {
  return change.value.empty() ? storage::WithdrawLabel(ledger, change) : storage::ChangeLabel(ledger, change);
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

void SubmitLabels(const LabelRequester& requester, const v1::SubmitLabelsRequest& request,
                  v1::SubmitLabelsResponse& response, std::function<void()> done) {
  MakePlaces(request.labels_size(), response);
  StoreParts<storage::SubmitRequest> parts(request.labels_size());
  for (int i = 0; i < request.labels_size(); ++i) {
    const v1::Label& label = request.labels(i);
    if (const absl::Status status = CheckValue(*requester.campaign.plan(), label.value()); !status.ok()) {
      SetStatus(status, *response.mutable_results(i)->mutable_status());
      continue;
    }
    parts.Add(i, {.annotator = requester.annotator,
                  .request_id = PartId(request.request_id(), i),
                  .lease = label.lease().lease_id(),
                  .epoch = label.lease().epoch(),
                  .item = label.item_id(),
                  .value = label.value()});
  }
  RunParts(requester, storage::SubmitLabel, std::move(parts), response, std::move(done),
           [](const storage::LabelAnswer& answer, v1::SubmitLabelsResponse::Result& result) {
             result.set_sequence(answer.sequence);
             result.set_late(answer.late);
           });
}

void ChangeLabels(const LabelRequester& requester, const v1::ChangeLabelsRequest& request,
                  v1::ChangeLabelsResponse& response, std::function<void()> done) {
  MakePlaces(request.changes_size(), response);
  StoreParts<storage::ChangeRequest> parts(request.changes_size());
  for (int i = 0; i < request.changes_size(); ++i) {
    const v1::LabelChange& change = request.changes(i);
    if (const absl::Status status = CheckChange(*requester.campaign.plan(), change); !status.ok()) {
      SetStatus(status, *response.mutable_results(i)->mutable_status());
      continue;
    }
    parts.Add(i, {.annotator = requester.annotator,
                  .request_id = PartId(request.request_id(), i),
                  .item = change.item_id(),
                  .value = change.value()});
  }
  RunParts(requester, ChangeOrWithdraw, std::move(parts), response, std::move(done),
           [](const storage::LabelAnswer& answer, v1::ChangeLabelsResponse::Result& result) {
             result.set_sequence(answer.sequence);
           });
}

void SkipTasks(const LabelRequester& requester, const v1::SkipTasksRequest& request, v1::SkipTasksResponse& response,
               std::function<void()> done) {
  MakePlaces(request.skips_size(), response);
  StoreParts<storage::SkipRequest> parts(request.skips_size());
  for (int i = 0; i < request.skips_size(); ++i) {
    const v1::Skip& skip = request.skips(i);
    const auto reason = ReasonOf(skip.reason());
    if (!reason.ok()) {
      SetStatus(reason.status(), *response.mutable_results(i));
      continue;
    }
    parts.Add(i, {.annotator = requester.annotator,
                  .request_id = PartId(request.request_id(), i),
                  .lease = skip.lease().lease_id(),
                  .epoch = skip.lease().epoch(),
                  .reason = *reason});
  }
  RunParts(requester, storage::SkipTask, std::move(parts), response, std::move(done),
           [](const storage::LabelAnswer&, v1::ItemStatus&) {});
}

void ReleaseTasks(const LabelRequester& requester, const v1::ReleaseTasksRequest& request,
                  v1::ReleaseTasksResponse& response, std::function<void()> done) {
  MakePlaces(request.leases_size(), response);
  RunParts(requester, storage::ReleaseLease, PartsOf(requester.annotator, request), response, std::move(done),
           [](const storage::ReleaseAnswer&, v1::ItemStatus&) {});
}

void RenewLeases(const LabelRequester& requester, const v1::RenewLeasesRequest& request,
                 v1::RenewLeasesResponse& response, std::function<void()> done) {
  MakePlaces(request.leases_size(), response);
  RunParts(requester, storage::RenewLease, PartsOf(requester.annotator, request), response, std::move(done),
           [](const storage::RenewAnswer& answer, v1::RenewLeasesResponse::Result& result) {
             *result.mutable_expires_at() =
                 google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(answer.expires_at));
           });
}

namespace {

absl::StatusOr<std::int64_t> ReleaseLeasesOf(storage::Ledger& ledger, const std::string& annotator) {
  std::vector<storage::LeaseRequest> requests;
  ledger.state().leases().Visit([&](const storage::Lease& lease) {
    if (lease.annotator != annotator) return;
    requests.push_back({.annotator = annotator, .lease = lease.id, .epoch = lease.epoch});
  });
  // The same order whenever the log is replayed.
  std::sort(requests.begin(), requests.end(), [](const auto& a, const auto& b) { return a.lease < b.lease; });
  for (const storage::LeaseRequest& request : requests) {
    FULCRUM_RETURN_IF_ERROR(storage::ReleaseLease(ledger, request).status());
  }
  auto released = static_cast<std::int64_t>(requests.size());
  const auto& task = ledger.state().model_task();
  if (task && task->lease != 0 && task->process == annotator) {
    FULCRUM_RETURN_IF_ERROR(
        storage::ReleaseModelLease(ledger, {.process = annotator, .lease = task->lease, .epoch = task->epoch})
            .status());
    ++released;
  }
  return released;
}

}  // namespace

void ReleaseAllLeases(Campaign& campaign, const std::string& annotator) {
  campaign.store().Start(ReleaseLeasesOf, annotator, [name = campaign.name(), annotator](const auto& released) {
    if (!released.ok()) {
      Log(LogLevel::kWarning, "leases not released",
          {{"campaign", name}, {"annotator", annotator}, {"reason", std::string(released.status().message())}});
    } else if (*released > 0) {
      Log(LogLevel::kInfo, "leases released", {{"campaign", name}, {"annotator", annotator}, {"leases", *released}});
    }
  });
}

}  // namespace fulcrum::pipeline
