// The durable state of a campaign.
//
// Every change is a rule (lease_rules.h, label_rules.h, round_rules.h) run by one thread against the state at the end
// of the log, together with others in one commit. An answer, OK or not, comes after that commit: OK means on disk with
// full sync. Repeating a request, answered or not, is always safe.
//
//   auto store = CampaignStore::Open("campaigns/birds");
//   auto answer = (*store)->Run(AcquireTasks, {.annotator = "ada", .request_id = "7f3a", .most = 3});
//   (*store)->Start(SubmitLabel, request, [](absl::StatusOr<LabelAnswer> answer) { ... });   // does not wait
//
// Time: leases end by the clock of the running store. Time during which the store was closed does not count for leases
// and rounds: a restart, and a wall clock that was set meanwhile in either direction, neither shortens nor prolongs the
// time that a lease has left.
//
// Thread-safe. The folder belongs to the store while it is open: one process writes, any number read through
// CampaignReader. After a disk error that leaves it unclear what was written the store ends: every later call returns
// that error, `on_fatal` is called, and the process should exit; opening again finds everything that was answered.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "storage/campaign_folder.h"
#include "storage/clock.h"
#include "storage/commit/commit_queue.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

// How a campaign's store is run. A plain value.

struct StoreOptions {
  /// Must outlive the store; null for an AnchoredClock.
  const Clock* clock = nullptr;
  CommitQueueOptions queue = {};
  /// Called on the writing thread after a commit that changed something, before its answers.
  std::function<void(const CampaignStatus&)> on_commit = {};
  /// Called on the writing thread with the time that a commit that changed something took, before `on_commit`.
  std::function<void(std::chrono::nanoseconds)> on_commit_time = {};
  /// Called once, on the writing thread, when the store ends with an error.
  std::function<void(const absl::Status&)> on_fatal = {};
};

/// What was found out about the log when a store was opened.
struct OpeningFindings {
  /// When the log lost committed events, and how many: one line per loss, now and earlier. Empty if it has lost none.
  std::string lost_events = {};
  /// Why it cannot be said whether the log is complete; empty if it can.
  std::string warning = {};
};

class CampaignWriter;

class CampaignStore {
 public:
  /// Reads and changes the state: runs on the writing thread, must not block.
  template <typename Request, typename Answer>
  using Rule = absl::StatusOr<Answer> (*)(Ledger&, const Request&);
  template <typename Answer>
  using Done = std::function<void(absl::StatusOr<Answer>)>;
  template <typename Answer>
  using DoneAll = std::function<void(std::vector<absl::StatusOr<Answer>>)>;

  /// Creates a campaign; AlreadyExists if the folder has one.
  static absl::StatusOr<std::unique_ptr<CampaignStore>> Create(const std::string& folder,
                                                               const CampaignSettings& settings,
                                                               StoreOptions options = {});
  /// NotFound without a campaign, Unavailable if another process has it open, FailedPrecondition for a newer schema,
  /// DataLoss for a damaged one.
  static absl::StatusOr<std::unique_ptr<CampaignStore>> Open(const std::string& folder, StoreOptions options = {});
  /// Finishes what was started, and writes a checkpoint, so that the next Open reads no log. If that takes longer than
  /// CommitQueueOptions::most_idle_time_at_end, the next Open reads the log since the last checkpoint.
  ~CampaignStore();
  CampaignStore(const CampaignStore&) = delete;
  CampaignStore& operator=(const CampaignStore&) = delete;

  /// Queues a rule; `done` is called on the writing thread and must not block. ResourceExhausted, through `done` and
  /// before returning, if the queue is full. Rules that were started and not answered yet run in any order if their
  /// turns differ.
  template <typename Request, typename Answer>
  void Start(Rule<Request, Answer> rule, std::type_identity_t<Request> request, std::type_identity_t<Done<Answer>> done,
             Turn turn = Turn::kInOrder) {
    Enqueue(std::make_unique<RuleOperation<Request, Answer>>(rule, std::move(request), std::move(done)), turn);
  }

  /// Queues a rule for several requests, which are answered together, in their order. Each is accepted or refused by
  /// itself; if the store cannot write one of them, all fail with the reason.
  template <typename Request, typename Answer>
  void StartAll(Rule<Request, Answer> rule, std::vector<std::type_identity_t<Request>> requests,
                std::type_identity_t<DoneAll<Answer>> done) {
    Enqueue(std::make_unique<RuleOperations<Request, Answer>>(rule, std::move(requests), std::move(done)));
  }

  /// Queues a rule and waits for its answer. Not for the writing thread.
  template <typename Request, typename Answer>
  absl::StatusOr<Answer> Run(Rule<Request, Answer> rule, std::type_identity_t<Request> request) {
    absl::StatusOr<Answer> answer;
    absl::Notification answered;
    Start(rule, std::move(request), [&](absl::StatusOr<Answer> given) {
      answer = std::move(given);
      answered.Notify();
    });
    answered.WaitForNotification();
    return answer;
  }

  /// Expires the leases whose time is up: for a timer, so that they expire without other requests.
  absl::Status ExpireLeases();
  /// Brings the checkpoint up to the last event now.
  absl::Status WriteCheckpoint();

  /// The figures after the last commit.
  std::shared_ptr<const CampaignStatus> status() const;
  /// OK, or why the store ended.
  absl::Status health() const;
  const OpeningFindings& opening_findings() const;
  /// The time by which leases end and events are recorded: what is compared with times of the store must be this.
  Time Now() const;
  const CampaignFolder& folder() const;
  std::size_t queued() const;
  /// Events that are not in the last checkpoint: so many are read when the campaign is opened.
  std::int64_t events_since_checkpoint() const;

 private:
  template <typename Request, typename Result>
  class RuleOperation final : public Operation {
   public:
    RuleOperation(Rule<Request, Result> rule, Request request, Done<Result> done)
        : rule_(rule), request_(std::move(request)), done_(std::move(done)) {}
    absl::Status Run(Ledger& ledger) override {
      result_ = rule_(ledger, request_);
      return result_.status();
    }
    void Answer(const absl::Status& status) override {
      done_(status.ok() ? std::move(result_) : absl::StatusOr<Result>(status));
    }

   private:
    const Rule<Request, Result> rule_;
    const Request request_;
    const Done<Result> done_;
    absl::StatusOr<Result> result_;
  };

  template <typename Request, typename Result>
  class RuleOperations final : public Operation {
   public:
    RuleOperations(Rule<Request, Result> rule, std::vector<Request> requests, DoneAll<Result> done)
        : rule_(rule), requests_(std::move(requests)), done_(std::move(done)) {}
    std::size_t parts() const override { return std::max<std::size_t>(requests_.size(), 1); }
    absl::Status Run(Ledger& ledger) override {
      results_.clear();
      results_.reserve(requests_.size());
      for (const Request& request : requests_) {
        results_.push_back(rule_(ledger, request));
        if (ledger.broken()) return results_.back().status();
      }
      return absl::OkStatus();
    }
    void Answer(const absl::Status& status) override {
      if (!status.ok()) results_.assign(requests_.size(), status);
      done_(std::move(results_));
    }

   private:
    const Rule<Request, Result> rule_;
    const std::vector<Request> requests_;
    const DoneAll<Result> done_;
    std::vector<absl::StatusOr<Result>> results_;
  };

  explicit CampaignStore(std::unique_ptr<CampaignWriter> writer, const CommitQueueOptions& options);
  /// On the writing thread, after it may have written one.
  void NoteCheckpoint();

  void Enqueue(std::unique_ptr<Operation> operation, Turn turn = Turn::kInOrder);

  const std::unique_ptr<CampaignWriter> writer_;
  std::atomic<std::int64_t> checkpoint_sequence_ = 0;
  std::unique_ptr<CommitQueue> queue_;  // last: its thread uses the writer
};

}  // namespace fulcrum::storage
