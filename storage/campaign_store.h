// A campaign's durable memory: what the daemon asks, and what it may rely on.
//
// Every change is a rule (lease_rules.h, label_rules.h, round_rules.h) run by one thread against the state at the end
// of the log, together with others in one commit. An answer, OK or not, comes after that commit: OK means on disk with
// full sync. Repeating a request that was answered or not is always safe.
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
// CampaignReader. After a disk error that leaves it unclear what was written the store is over: every later call gets
// that error, `on_fatal` is called, and the process should end; opening again finds everything that was answered.
#pragma once

#include <algorithm>
#include <array>
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
#include "storage/campaign_folder.h"
#include "storage/clock.h"
#include "storage/commit/commit_queue.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

// How a campaign's store is run. A plain value.

struct StoreOptions {
  /// Must outlive the store; an AnchoredClock where there is none.
  const Clock* clock = nullptr;
  CommitQueueOptions queue = {};
  /// Reads the whole database once at open.
  bool check_integrity = true;
  /// Called on the writing thread after a commit that changed something, before its answers.
  std::function<void(const CampaignStatus&)> on_commit = {};
  /// Called on the writing thread with the time that a commit that changed something took, before `on_commit`.
  std::function<void(std::chrono::nanoseconds)> on_commit_time = {};
  /// Called once, on the writing thread, when the store is over.
  std::function<void(const absl::Status&)> on_fatal = {};
};

class CampaignWriter;

class CampaignStore {
 public:
  /// What changes or asks: runs on the writing thread, must not block.
  template <typename Request, typename Answer>
  using Rule = absl::StatusOr<Answer> (*)(Ledger&, const Request&);
  template <typename Answer>
  using Done = std::function<void(absl::StatusOr<Answer>)>;
  template <typename Answer>
  using DoneAll = std::function<void(std::vector<absl::StatusOr<Answer>>)>;

  /// Makes a campaign; AlreadyExists where the folder has one.
  static absl::StatusOr<std::unique_ptr<CampaignStore>> Create(const std::string& folder,
                                                               const CampaignSettings& settings,
                                                               StoreOptions options = {});
  /// NotFound without a campaign, Unavailable where another process has it, FailedPrecondition for a newer schema,
  /// DataLoss for a damaged one.
  static absl::StatusOr<std::unique_ptr<CampaignStore>> Open(const std::string& folder, StoreOptions options = {});
  /// Finishes what was started, and brings the derived tables up to date as far as a second suffices for that; whoever
  /// opens the campaign next does the rest.
  ~CampaignStore();
  CampaignStore(const CampaignStore&) = delete;
  CampaignStore& operator=(const CampaignStore&) = delete;

  /// Queues a rule; `done` is called on the writing thread and must not block. ResourceExhausted, through `done` and
  /// before returning, where the queue is full. Rules that were started and not answered yet run in any order where
  /// their turns differ.
  template <typename Request, typename Answer>
  void Start(Rule<Request, Answer> rule, std::type_identity_t<Request> request, std::type_identity_t<Done<Answer>> done,
             Turn turn = Turn::kInOrder) {
    Enqueue(std::make_unique<RuleOperation<Request, Answer>>(rule, std::move(request), std::move(done)), turn);
  }

  /// Queues a rule for several requests, which are answered together, in their order. Each is taken or refused by
  /// itself; only where the store cannot write one of them, all are refused with the reason.
  template <typename Request, typename Answer>
  void StartAll(Rule<Request, Answer> rule, std::vector<std::type_identity_t<Request>> requests,
                std::type_identity_t<DoneAll<Answer>> done) {
    Enqueue(std::make_unique<RuleOperations<Request, Answer>>(rule, std::move(requests), std::move(done)));
  }

  /// Queues a rule and waits for its answer. Not for the writing thread.
  template <typename Request, typename Answer>
  absl::StatusOr<Answer> Run(Rule<Request, Answer> rule, std::type_identity_t<Request> request) {
    absl::StatusOr<Answer> answer;
    ReplyWaiter waiter(bells_[next_bell_.fetch_add(1, std::memory_order_relaxed) % bells_.size()]);
    Start(rule, std::move(request), [&answer, &waiter](absl::StatusOr<Answer> given) {
      answer = std::move(given);
      waiter.Answered();
    });
    waiter.Wait();
    return answer;
  }

  /// Ends the leases whose time is up: for a timer, so that they end without other requests.
  absl::Status ExpireLeases();
  /// Brings the derived tables up to date now.
  absl::Status WriteDerivedTables();

  /// The figures after the last commit.
  std::shared_ptr<const CampaignStatus> status() const;
  /// OK, or why the store is over.
  absl::Status health() const;
  const CampaignFolder& folder() const;
  std::size_t queued() const;

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

  void Enqueue(std::unique_ptr<Operation> operation, Turn turn = Turn::kInOrder);

  const std::unique_ptr<CampaignWriter> writer_;
  // For those who wait in Run: so many that few of them share one, since waking in vain costs as much as waking.
  std::array<ReplySignal, 256> bells_;
  std::atomic<std::uint32_t> next_bell_ = 0;
  std::unique_ptr<CommitQueue> queue_;  // last: its thread uses the writer
};

}  // namespace fulcrum::storage
