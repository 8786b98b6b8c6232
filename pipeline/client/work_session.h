// One worker's session: take tasks, have them answered, send the answers, until the campaign is over.
//
// Outlives restarts of the daemon: every call is repeated with the same request id until it is answered. That is why it
// makes calls and does not use the Work stream: tasks that were sent on a stream which broke are out of reach until
// their leases run out, while a call that was not answered is made again and gets the same tasks. A long poll brings
// them as soon as a stream would. Not thread-safe; everything happens in Run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/client/annotator.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/lease_watch.h"
#include "pipeline/client/outbox.h"
#include "pipeline/client/request_ids.h"
#include "pipeline/client/retry.h"
#include "pipeline/client/work_summary.h"

namespace fulcrum::pipeline {

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
  /// Sends what is answered and hands back what is not, without much patience.
  absl::Status Leave();

  const WorkOptions options_;
  LabelingCalls& calls_;
  Annotator& annotator_;
  const Timing timing_;
  Retrier retrier_;
  RequestIds ids_;
  WorkSummary summary_;
  Outbox outbox_;
  LeaseWatch lease_watch_;
  std::deque<WorkTask> held_;  // not answered yet
};

}  // namespace fulcrum::pipeline
