// One worker's session: take tasks, have them answered, send the answers, until the campaign is over.
//
// Outlives restarts of the daemon: every request is repeated with the same request id until it is answered, and tasks
// that were on their way are sent again. Not thread-safe; everything happens in Run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pipeline/client/annotators.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/server_connection.h"

namespace fulcrum::pipeline {

// What a worker did, for the line it ends with. A plain value.

struct WorkSummary {
  std::uint64_t acquired = 0;
  std::uint64_t accepted = 0;  ///< labels that are on the server's disk
  std::uint64_t late = 0;      ///< of those, after their lease had ended
  std::uint64_t refused = 0;
  std::string last_refusal = {};
  std::uint64_t skipped = 0;
  std::uint64_t undone = 0;
  std::uint64_t released = 0;
  std::uint64_t lost = 0;      ///< leases that ended before there was an answer
  std::uint64_t repeated = 0;  ///< calls sent again because the server was away
};

/// "12 labels accepted (1 late), 0 refused, 2 skipped", and what else is not zero.
std::string DescribeWork(const WorkSummary& summary);

// Answers on their way to the server.
//
// An answer waits here until it is sent; a request that was sent keeps its id and content until the server has said
// what became of it, so that no answer is lost or given twice when the server goes away in between. Not thread-safe.

/// An answer with its task, which comes back where the answer is undone.
struct GivenAnswer {
  WorkTask task = {};
  std::string value = {};
  std::chrono::steady_clock::time_point given_at = {};
};

class LabelQueue {
 public:
  /// All must outlive it.
  LabelQueue(LabelingCalls& calls, RequestIds& ids, WorkSummary& summary)
      : calls_(calls), ids_(ids), summary_(summary) {}

  void Add(GivenAnswer answer) { waiting_.push_back(std::move(answer)); }
  /// Takes the last answer back, unless it has been sent.
  std::optional<GivenAnswer> TakeBack();
  /// Sends all but the last `keep` answers. Where it fails, calling it again goes on with the same request.
  absl::Status Send(std::size_t keep, Retrier& retrier);

  std::size_t waiting() const { return waiting_.size(); }
  /// Answers the server has not confirmed.
  std::size_t unconfirmed() const { return waiting_.size() + sent_.size(); }
  /// Of the oldest answer that waits.
  std::optional<std::chrono::steady_clock::time_point> oldest() const;
  /// Leases of answers that wait.
  std::vector<LeaseName> leases() const;

 private:
  void Tally(const std::vector<SubmitResult>& results);

  LabelingCalls& calls_;
  RequestIds& ids_;
  WorkSummary& summary_;
  std::deque<GivenAnswer> waiting_;
  std::vector<LabelAnswer> sent_;  // of the request below, unconfirmed
  std::string request_id_;
};

// When leases should be renewed, from what is known of how long they last.
//
// The server's clock decides and may differ from ours, so leases are renewed well before half of their time has gone by
// and at least once a minute. Not thread-safe.

class LeaseWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Leases were given or renewed just now, until `expires_at` by the server's clock; `wall_now` is by ours.
  void Note(absl::Time expires_at, absl::Time wall_now, TimePoint now);
  /// Whether it is time to renew.
  bool IsDue(TimePoint now) const { return now >= due_; }
  /// A renewal did not get through.
  void TryAgainSoon(TimePoint now);
  /// Nothing is held.
  void Clear() { due_ = TimePoint::max(); }

 private:
  TimePoint due_ = TimePoint::max();
};

struct WorkOptions {
  int batch = 10;  ///< tasks to hold at a time
  std::chrono::milliseconds wait{20'000};
  RetryPolicy retry = {};
  std::uint64_t seed = 0;                     ///< of the pauses
  std::function<void()> crash = {};           ///< what an imitated crash does
  Retrier::OnTrouble on_trouble = {};         ///< told when the server is away
  std::chrono::milliseconds last_try{5'000};  ///< for sending what is left when asked to end
};

class WorkSession {
 public:
  /// `calls` and `annotator` must outlive it. `timing.sleep` says when to end.
  WorkSession(WorkOptions options, LabelingCalls& calls, Annotator& annotator, Timing timing);

  /// OK when the campaign is over, when the annotator quits, or when asked to end; what is held is then handed back.
  absl::Status Run();

  const WorkSummary& summary() const { return summary_; }

 private:
  enum class Next { kGoOn, kEnd };

  absl::StatusOr<Next> AcquireAndAnswer();
  absl::StatusOr<TaskBatch> Acquire();
  absl::StatusOr<Next> AnswerHeld();
  absl::StatusOr<Next> Apply(const Decision& decision);
  void GiveLabel(std::string value);
  absl::Status Skip(SkipReason reason);
  void Undo();
  absl::Status SendWhatIsDue();
  /// False when asked to end.
  bool KeepAlive();
  void Renew();
  void DropEnded(const std::vector<LeaseName>& leases, const std::vector<RenewResult>& results);
  /// Sends what is answered and returns what is not, with a short timeout.
  absl::Status Leave();

  const WorkOptions options_;
  LabelingCalls& calls_;
  Annotator& annotator_;
  const Timing timing_;
  Retrier retrier_;
  RequestIds ids_;
  WorkSummary summary_;
  LabelQueue outbox_;
  LeaseWatch lease_watch_;
  std::deque<WorkTask> held_;  // not answered yet
};

}  // namespace fulcrum::pipeline
