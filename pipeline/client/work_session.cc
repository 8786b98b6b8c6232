#include "pipeline/client/work_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

void AppendUnlessZero(std::uint64_t count, const std::string& what, std::string& text) {
  if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
}

}  // namespace

std::string DescribeWork(const WorkSummary& summary) {
  std::string text = absl::StrCat(summary.accepted, " labels accepted (", summary.late, " late), ", summary.refused,
                                  " refused, ", summary.skipped, " skipped");
  AppendUnlessZero(summary.undone, "undone", text);
  AppendUnlessZero(summary.released, "released", text);
  AppendUnlessZero(summary.lost, "lost to an expired lease", text);
  AppendUnlessZero(summary.repeated, "calls retried", text);
  if (!summary.last_refusal.empty()) absl::StrAppend(&text, "; the last refusal: ", summary.last_refusal);
  return text;
}

namespace {

constexpr std::size_t kMostLabels = 1000;  // that SubmitLabels takes

}  // namespace

std::optional<GivenAnswer> LabelQueue::TakeBack() {
  if (waiting_.empty()) return std::nullopt;
  GivenAnswer answer = std::move(waiting_.back());
  waiting_.pop_back();
  ++summary_.undone;
  return answer;
}

std::optional<std::chrono::steady_clock::time_point> LabelQueue::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().given_at;
}

std::vector<LeaseName> LabelQueue::leases() const {
  std::vector<LeaseName> leases;
  for (const GivenAnswer& answer : waiting_) leases.push_back(answer.task.lease);
  return leases;
}

absl::Status LabelQueue::Send(std::size_t keep, Retrier& retrier) {
  while (!sent_.empty() || waiting_.size() > keep) {
    if (sent_.empty()) {
      request_id_ = ids_.Next();
      for (std::size_t left = std::min(waiting_.size() - keep, kMostLabels); left > 0; --left) {
        GivenAnswer& answer = waiting_.front();
        sent_.push_back({answer.task.lease, std::move(answer.task.item_id), std::move(answer.value)});
        waiting_.pop_front();
      }
    }
    std::vector<SubmitResult> results;
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(results, calls_.Submit(request_id_, sent_));
      return absl::OkStatus();
    }));
    Tally(results);
    sent_.clear();
  }
  return absl::OkStatus();
}

void LabelQueue::Tally(const std::vector<SubmitResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].status.ok()) {
      ++summary_.accepted;
      if (results[i].late) ++summary_.late;
    } else {
      ++summary_.refused;
      summary_.last_refusal = absl::StrCat("'", sent_[i].item_id, "': ", results[i].status.message());
    }
  }
}

namespace {

constexpr absl::Duration kShortest = absl::Milliseconds(500);
constexpr absl::Duration kLongest = absl::Seconds(60);
constexpr std::chrono::seconds kPauseAfterTrouble{1};

}  // namespace

void LeaseWatch::Note(absl::Time expires_at, absl::Time wall_now, TimePoint now) {
  const absl::Duration wait = std::clamp((expires_at - wall_now) * 0.4, kShortest, kLongest);
  due_ = std::min(due_, now + absl::ToChronoNanoseconds(wait));
}

void LeaseWatch::TryAgainSoon(TimePoint now) {
  due_ = now + kPauseAfterTrouble;
}

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kIdlePause{200};
constexpr milliseconds kRenewTimeout{2'000};

/// Pauses that nothing interrupts, for the last calls of a worker that was asked to leave.
Timing Uninterrupted(const Timing& timing) {
  return {.now = timing.now,
          .sleep =
              [pause = timing.pause](milliseconds time) {
                pause(time);
                return true;
              },
          .pause = timing.pause};
}

RetryPolicy WithTimeout(RetryPolicy policy, milliseconds timeout) {
  policy.give_up_after = std::min(policy.give_up_after, timeout);
  return policy;
}

}  // namespace

WorkSession::WorkSession(WorkOptions options, LabelingCalls& calls, Annotator& annotator, Timing timing)
    : options_(std::move(options)),
      calls_(calls),
      annotator_(annotator),
      timing_(std::move(timing)),
      retrier_(options_.retry, timing_, options_.seed, options_.on_trouble),
      outbox_(calls_, ids_, summary_) {}

absl::Status WorkSession::Run() {
  absl::StatusOr<Next> next = Next::kGoOn;
  while (next.ok() && *next == Next::kGoOn) next = AcquireAndAnswer();
  const absl::Status left = Leave();
  summary_.repeated += retrier_.repeats();
  // A requested stop is not an error, whatever it interrupted.
  if (next.ok() || absl::IsCancelled(next.status())) return left;
  return next.status();
}

absl::StatusOr<WorkSession::Next> WorkSession::AcquireAndAnswer() {
  FULCRUM_ASSIGN_OR_RETURN(TaskBatch batch, Acquire());
  if (batch.tasks.empty()) {
    if (batch.campaign_over) return Next::kEnd;
    annotator_.OnIdle(batch.waiting_for);
    return timing_.sleep(kIdlePause) ? Next::kGoOn : Next::kEnd;
  }
  summary_.acquired += batch.tasks.size();
  for (WorkTask& task : batch.tasks) {
    lease_watch_.Note(task.expires_at, absl::Now(), timing_.now());
    if (task.large_payload_bytes > 0 && annotator_.shows_payloads()) {
      FULCRUM_RETURN_IF_ERROR(retrier_.Call([&]() -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(task.payload, calls_.GetPayload(task.item_id));
        return absl::OkStatus();
      }));
    }
    held_.push_back(std::move(task));
  }
  return AnswerHeld();
}

absl::StatusOr<TaskBatch> WorkSession::Acquire() {
  const std::string request_id = ids_.Next();
  TaskBatch batch;
  FULCRUM_RETURN_IF_ERROR(retrier_.Call([&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(batch, calls_.Acquire(request_id, options_.batch, options_.wait));
    return absl::OkStatus();
  }));
  return batch;
}

absl::StatusOr<WorkSession::Next> WorkSession::AnswerHeld() {
  const auto keep_alive = [this] { return KeepAlive(); };
  while (!held_.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const Decision decision, annotator_.Decide(held_.front(), keep_alive));
    FULCRUM_ASSIGN_OR_RETURN(const Next next, Apply(decision));
    if (next == Next::kEnd) return next;
    FULCRUM_RETURN_IF_ERROR(SendWhatIsDue());
    if (!held_.empty() || outbox_.waiting() == 0) continue;
    const Decision::Kind verdict = annotator_.ReviewLast(keep_alive);
    if (verdict == Decision::Kind::kQuit) return Next::kEnd;
    if (verdict == Decision::Kind::kUndo) Undo();
  }
  lease_watch_.Clear();
  FULCRUM_RETURN_IF_ERROR(outbox_.Send(0, retrier_));
  return Next::kGoOn;
}

absl::StatusOr<WorkSession::Next> WorkSession::Apply(const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kLabel:
      GiveLabel(decision.value);
      return Next::kGoOn;
    case Decision::Kind::kSkip:
      FULCRUM_RETURN_IF_ERROR(Skip(decision.skip_reason));
      return Next::kGoOn;
    case Decision::Kind::kUndo:
      Undo();
      return Next::kGoOn;
    case Decision::Kind::kQuit:
      return Next::kEnd;
    case Decision::Kind::kCrash:
      options_.crash();
      return absl::InternalError("the simulated crash did not end the worker");
  }
  return absl::InternalError("unknown decision");
}

void WorkSession::GiveLabel(std::string value) {
  outbox_.Add({.task = std::move(held_.front()), .value = std::move(value), .given_at = timing_.now()});
  held_.pop_front();
}

absl::Status WorkSession::Skip(SkipReason reason) {
  const std::string request_id = ids_.Next();
  std::vector<absl::Status> results;
  FULCRUM_RETURN_IF_ERROR(retrier_.Call([&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(results, calls_.Skip(request_id, {{held_.front().lease, reason}}));
    return absl::OkStatus();
  }));
  held_.pop_front();
  ++(results[0].ok() ? summary_.skipped : summary_.lost);
  return absl::OkStatus();
}

void WorkSession::Undo() {
  if (auto answer = outbox_.TakeBack()) held_.push_front(std::move(answer->task));
}

absl::Status WorkSession::SendWhatIsDue() {
  const HoldBack hold_back = annotator_.hold_back();
  const auto oldest = outbox_.oldest();
  const bool old = oldest && timing_.now() - *oldest > hold_back.age;
  if (!old && outbox_.waiting() <= hold_back.count) return absl::OkStatus();
  return outbox_.Send(old ? 0 : hold_back.count, retrier_);
}

bool WorkSession::KeepAlive() {
  if (lease_watch_.IsDue(timing_.now())) Renew();
  return timing_.sleep(milliseconds(0));
}

void WorkSession::Renew() {
  std::vector<LeaseName> leases = outbox_.leases();
  for (const WorkTask& task : held_) leases.push_back(task.lease);
  const std::string request_id = ids_.Next();
  std::vector<RenewResult> results;
  Retrier retrier(WithTimeout(options_.retry, kRenewTimeout), timing_, options_.seed);
  const absl::Status status = retrier.Call([&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(results, calls_.Renew(request_id, leases));
    return absl::OkStatus();
  });
  summary_.repeated += retrier.repeats();
  // Do not interrupt the annotator: what is left of the lease leaves time for more attempts.
  if (!status.ok()) return lease_watch_.TryAgainSoon(timing_.now());
  DropEnded(leases, results);
}

void WorkSession::DropEnded(const std::vector<LeaseName>& leases, const std::vector<RenewResult>& results) {
  lease_watch_.Clear();
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results[i].status.ok()) {
      lease_watch_.Note(results[i].expires_at, absl::Now(), timing_.now());
      continue;
    }
    // Another annotator may have the task by now. What is answered, or is the task that the annotator has before them,
    // is sent all the same: a late label counts.
    if (held_.empty()) continue;
    const auto ended =
        std::find_if(std::next(held_.begin()), held_.end(), [&](const auto& task) { return task.lease == leases[i]; });
    if (ended == held_.end()) continue;
    held_.erase(ended);
    ++summary_.lost;
  }
}

absl::Status WorkSession::Leave() {
  Retrier retrier(WithTimeout(options_.retry, options_.last_try), Uninterrupted(timing_), options_.seed);
  const absl::Status sent = outbox_.Send(0, retrier);
  std::vector<LeaseName> leases;
  for (const WorkTask& task : held_) leases.push_back(task.lease);
  const std::vector<LeaseName> ahead = calls_.Close();
  leases.insert(leases.end(), ahead.begin(), ahead.end());
  if (!leases.empty() && sent.ok()) {
    const std::string request_id = ids_.Next();
    const absl::Status released = retrier.Call([&] { return calls_.Release(request_id, leases).status(); });
    // A lease that is not released expires by itself.
    if (released.ok()) summary_.released += leases.size();
  }
  summary_.repeated += retrier.repeats();
  if (sent.ok()) return sent;
  return absl::Status(sent.code(), absl::StrCat(outbox_.unconfirmed(), " answers could not be sent: ", sent.message()));
}

}  // namespace fulcrum::pipeline
