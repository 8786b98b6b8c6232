#include "pipeline/services/task_acquirer.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

namespace fulcrum::pipeline {

void DescribeTasks(const Campaign& campaign, const TakenTasks& taken, v1::AcquireTasksResponse& response) {
  const CampaignPlan& plan = campaign.plan();
  if (taken.campaign_over) response.set_campaign_over(true);
  response.mutable_tasks()->Reserve(static_cast<int>(taken.leases.size()));
  for (const storage::GrantedLease& lease : taken.leases) {
    v1::Task& task = *response.add_tasks();
    task.set_lease_id(lease.lease);
    task.set_epoch(lease.epoch);
    task.set_item_id(lease.item);
    task.set_round(lease.round);
    *task.mutable_expires_at() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(lease.expires_at));
    task.mutable_classes()->Reserve(static_cast<int>(plan.classes.size()));
    for (const std::string& name : plan.classes) task.add_classes(name);
    // Even an empty one would be a string more for every task.
    if (!plan.question.empty()) task.set_question(plan.question);
    if (std::string payload = campaign.PayloadOf(lease.item); !payload.empty()) task.set_payload(std::move(payload));
  }
}

void TaskAcquirer::Try(const std::shared_ptr<Attempt>& attempt, bool again) {
  const AcquireCall& call = attempt->call;
  if (call.gone && call.gone()) return attempt->done(absl::CancelledError("the worker has gone"));
  if (!call.campaign->offers_tasks()) return WaitOrGiveUp(attempt, again);
  call.campaign->store().Start(
      storage::AcquireTasks, {.annotator = call.annotator, .request_id = call.request_id, .most = call.most},
      [this, attempt, again](absl::StatusOr<storage::AcquireAnswer> answer) {
        Receive(attempt, again, std::move(answer));
      },
      call.turn);
}

void TaskAcquirer::Receive(const std::shared_ptr<Attempt>& attempt, bool again,
                           absl::StatusOr<storage::AcquireAnswer> answer) {
  // A spent budget is no error to a worker: what is out may come back, and otherwise the campaign is about to end.
  const bool spent = answer.status().code() == absl::StatusCode::kResourceExhausted;
  if (!answer.ok() && !spent) return attempt->done(answer.status());
  if (spent || answer->leases.empty()) return WaitOrGiveUp(attempt, again);
  replies_.Post([attempt, taken = TakenTasks{.leases = std::move(answer->leases)}] { attempt->done(taken); },
                attempt->call.turn);
}

void TaskAcquirer::WaitOrGiveUp(const std::shared_ptr<Attempt>& attempt, bool again) {
  const AcquireCall& call = attempt->call;
  if (call.campaign->over() || TaskWaiters::Clock::now() >= call.until) {
    return attempt->done(TakenTasks{.campaign_over = call.campaign->over()});
  }
  waiters_.Wait(call.campaign->plan().name, call.until, again, [this, attempt](Wake why) { Resume(attempt, why); });
}

void TaskAcquirer::Resume(const std::shared_ptr<Attempt>& attempt, Wake why) {
  if (why == Wake::kStopping) return attempt->done(absl::UnavailableError("the daemon is stopping; ask again later"));
  Try(attempt, /*again=*/true);
}

}  // namespace fulcrum::pipeline
