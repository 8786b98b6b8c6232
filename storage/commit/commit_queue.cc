#include "storage/commit/commit_queue.h"

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/lease_rules.h"

namespace fulcrum::storage {
namespace {

// Three times the processor time of an ordinary thread, where there are more threads than processors.
constexpr int kNiceness = -5;

/// On Linux a thread has a niceness of its own. A process that may not lower it (`ulimit -e`) goes on without.
void RaiseThreadPriority() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
}

}  // namespace

CommitQueue::CommitQueue(const CommitQueueOptions& options, std::function<void(OperationGroup&)> commit,
                         std::function<bool()> idle)
    : options_(options), commit_(std::move(commit)), idle_(std::move(idle)), thread_([this] { Work(); }) {}

CommitQueue::~CommitQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

absl::Status CommitQueue::Push(std::unique_ptr<Operation>& operation, Turn turn) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (Waiting() >= options_.capacity) {
      return absl::ResourceExhaustedError(
          absl::StrCat(Waiting(), " operations are waiting to be written; try again in a moment"));
    }
    Line& line = turn == Turn::kSoon ? soon_ : in_order_;
    line.parts += operation->parts();
    line.operations.push_back(std::move(operation));
    wake = Waiting() >= wake_at_;
  }
  // Waking the thread for every operation would cost more than the operations.
  if (wake) filled_.notify_one();
  return absl::OkStatus();
}

std::size_t CommitQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return Waiting();
}

std::size_t CommitQueue::MoveFirst(std::size_t room, Line& from, OperationGroup& to) {
  while (!from.operations.empty()) {
    const std::size_t parts = from.operations.front()->parts();
    // What is larger than a group is a group of its own.
    if (parts > room && !to.empty()) return room;
    from.parts -= parts;
    room -= std::min(room, parts);
    to.push_back(std::move(from.operations.front()));
    from.operations.pop_front();
  }
  return room;
}

OperationGroup CommitQueue::TakeGroup() {
  const std::size_t most = options_.most_operations;
  const std::size_t left_by_others = most - std::min(most, in_order_.parts);
  const std::size_t for_soon = std::max(most / 2, left_by_others);
  OperationGroup group;
  group.reserve(std::min(Waiting(), most));
  const std::size_t left = MoveFirst(for_soon, soon_, group);
  MoveFirst(most - for_soon + left, in_order_, group);
  return group;
}

OperationGroup CommitQueue::NextGroup(std::chrono::milliseconds idle_time) {
  std::unique_lock lock(mutex_);
  const auto enough = [this] { return stopping_ || Waiting() >= wake_at_; };
  wake_at_ = 1;
  if (!filled_.wait_for(lock, idle_time, enough)) return {};
  // Half of them: the others come back while these are being written.
  wake_at_ = std::min((last_group_ + 1) / 2, options_.most_operations);
  filled_.wait_for(lock, options_.most_wait, enough);
  wake_at_ = SIZE_MAX;  // the thread is awake
  const std::size_t before = Waiting();
  OperationGroup group = TakeGroup();
  last_group_ = std::max<std::size_t>(before - Waiting(), 1);
  return group;
}

void CommitQueue::Work() {
  // Whoever else is at work has to wait for this thread sooner or later.
  RaiseThreadPriority();
  for (bool more_idle_work = false;;) {
    OperationGroup group = NextGroup(more_idle_work ? std::chrono::milliseconds(0) : options_.idle_time);
    if (!group.empty()) {
      commit_(group);
      more_idle_work = false;
      continue;
    }
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_ && Waiting() == 0) break;
    }
    more_idle_work = idle_();
  }
  const auto enough = std::chrono::steady_clock::now() + options_.most_idle_time_at_end;
  while (idle_() && std::chrono::steady_clock::now() < enough) {
  }
}

namespace {

/// Whether trying again later may help, because nothing is wrong with what is on disk.
bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

/// Whether only the operation itself is to blame: a value SQLite does not take, an event that the state refuses.
bool IsOwnFault(const absl::Status& status) {
  if (!SqliteExtendedCode(status).has_value()) return true;
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status);
}

}  // namespace

GroupCommit::GroupCommit(SqliteDatabase& database, Ledger& ledger) : database_(database), ledger_(ledger) {}

absl::Status GroupCommit::Run(const OperationGroup& group, std::vector<absl::Status>& results) {
  results.assign(group.size(), absl::OkStatus());
  taken_out_.assign(group.size(), false);
  for (;;) {
    const absl::StatusOr<Outcome> outcome = TryOnce(group, results);
    if (!outcome.ok()) {
      std::fill(results.begin(), results.end(), outcome.status());
      return outcome.status();
    }
    if (*outcome != Outcome::kTryAgain) return absl::OkStatus();
  }
}

absl::StatusOr<GroupCommit::Outcome> GroupCommit::TryOnce(const OperationGroup& group,
                                                          std::vector<absl::Status>& results) {
  absl::Status failure;
  std::optional<std::size_t> failed;
  {
    auto transaction = SqliteTransaction::BeginWrite(database_);
    failure = transaction.status();
    if (failure.ok()) {
      const std::int64_t before = ledger_.state().last_sequence();
      failed = RunOperations(group, results);
      failure = failed.has_value() ? results[*failed] : absl::OkStatus();
      // Nothing written, nothing to sync: questions and refusals cost no commit.
      if (failure.ok() && ledger_.state().last_sequence() == before) return Outcome::kCommitted;
      if (failure.ok()) failure = transaction->Commit();
      if (failure.ok()) return Outcome::kCommitted;
    }
  }
  FULCRUM_RETURN_IF_ERROR(Recover(failure));
  if (failed.has_value() && IsOwnFault(failure)) {
    taken_out_[*failed] = true;
    return Outcome::kTryAgain;
  }
  std::fill(results.begin(), results.end(), failure);
  return Outcome::kFailed;
}

std::optional<std::size_t> GroupCommit::RunOperations(const OperationGroup& group, std::vector<absl::Status>& results) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (taken_out_[i]) continue;
    results[i] = ExpireDueLeases(ledger_);
    if (results[i].ok()) results[i] = group[i]->Run(ledger_);
    if (ledger_.broken()) return i;
  }
  return std::nullopt;
}

absl::Status GroupCommit::Recover(const absl::Status& cause) {
  if (!MayPass(cause) && !IsOwnFault(cause)) return cause;
  return ledger_.Reload();
}

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "what the system compares");

// Long ones save the writer more, short ones wake the last of them sooner.
constexpr std::size_t kLongestChain = 8;

thread_local ChainedWakeups* chains_of_this_thread = nullptr;

}  // namespace

void ReplySignal::Ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() > 0) syscall(SYS_futex, &rings_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void ReplySignal::WaitFor(const std::atomic<bool>& answered) {
  for (;;) {
    // Before looking: an answer that comes after the look changes the number, and the system lets nobody sleep then.
    const std::uint32_t seen = rings_.load();
    if (answered.load(std::memory_order_acquire)) return;
    // Before sleeping: who rings later sees it, and who rang before has changed the number.
    sleepers_.fetch_add(1);
    syscall(SYS_futex, &rings_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1);
  }
}

void ReplyWaiter::Answered() {
  ReplySignal& bell = bell_;
  ChainedWakeups* const chains = chains_of_this_thread;
  if (chains != nullptr) next_ = chains->PutFirst(bell);
  answered_.store(true, std::memory_order_release);
  // From here on the waiter may be gone.
  if (chains == nullptr) {
    bell.Ring();
  } else if (chains->length_ == kLongestChain) {
    chains->EndChain();
  }
}

void ReplyWaiter::Wait() {
  bell_.WaitFor(answered_);
  if (next_ != nullptr) next_->Ring();
}

ChainedWakeups::ChainedWakeups() {
  chains_of_this_thread = this;
}

ChainedWakeups::~ChainedWakeups() {
  EndChain();
  chains_of_this_thread = nullptr;
}

ReplySignal* ChainedWakeups::PutFirst(ReplySignal& bell) {
  ++length_;
  return std::exchange(first_, &bell);
}

void ChainedWakeups::EndChain() {
  if (first_ != nullptr) first_->Ring();
  first_ = nullptr;
  length_ = 0;
}

}  // namespace fulcrum::storage
