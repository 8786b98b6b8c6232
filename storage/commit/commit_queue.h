// Operations from many threads, run by one, in groups.
//
// A group is what has come in when the thread is ready for it, at most `most_operations`; an operation counts as many
// times as it has parts. A thread that has just answered a large group waits a moment until half of those have come
// back, at most `most_wait`, and the others come while it writes: a lone caller never waits. Who cannot begin to work
// without an answer may go before who has done with it: up to half of a group is theirs, so that nobody waits for ever.
// Pushing is thread-safe and never blocks; a full queue says so. The destructor runs what is queued and some of the
// idle work, then ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

class Ledger;

/// Something to do on the writing thread, and somebody to tell.
class Operation {
 public:
  virtual ~Operation() = default;
  /// How many things there are to do, each of which takes its time.
  virtual std::size_t parts() const { return 1; }
  /// May be called again, where the group it was in had to be undone.
  virtual absl::Status Run(Ledger& ledger) = 0;
  /// Called once, after what Run did is on disk, or with the reason why it is not.
  virtual void Answer(const absl::Status& status) = 0;
};

using OperationGroup = std::vector<std::unique_ptr<Operation>>;

/// When an operation gets its turn.
enum class Turn {
  kInOrder,
  kSoon,  ///< before those in order; among themselves as they came
};

struct CommitQueueOptions {
  std::size_t capacity = 8192;
  std::size_t most_operations = 256;
  std::chrono::microseconds most_wait{2000};
  /// With nothing to do for so long, `idle` is called, and again for as long as it says that there is more.
  std::chrono::milliseconds idle_time{200};
  /// At the end it gets so much time for what it still has to do.
  std::chrono::milliseconds most_idle_time_at_end{1000};
};

class CommitQueue {
 public:
  /// `commit` and `idle` run on the queue's thread.
  CommitQueue(const CommitQueueOptions& options, std::function<void(OperationGroup&)> commit,
              std::function<bool()> idle);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Takes the operation, or leaves it with the caller: ResourceExhausted where the queue is full.
  absl::Status Push(std::unique_ptr<Operation>& operation, Turn turn = Turn::kInOrder);
  /// Parts of all operations that wait.
  std::size_t size() const;

 private:
  struct Line {
    std::deque<std::unique_ptr<Operation>> operations = {};
    std::size_t parts = 0;
  };
  void Work();
  /// The next group; empty when it is time to be idle, or to end.
  OperationGroup NextGroup(std::chrono::milliseconds idle_time);
  std::size_t Waiting() const { return soon_.parts + in_order_.parts; }
  OperationGroup TakeGroup();
  /// Moves the first operations of a line, as many as fit into `room` parts; returns the room that is left.
  static std::size_t MoveFirst(std::size_t room, Line& from, OperationGroup& to);

  const CommitQueueOptions options_;
  const std::function<void(OperationGroup&)> commit_;
  const std::function<bool()> idle_;

  mutable std::mutex mutex_;
  std::condition_variable filled_;
  Line soon_;
  Line in_order_;
  std::size_t wake_at_ = 1;     ///< parts that the thread is waiting for
  std::size_t last_group_ = 1;  ///< parts in the group before
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// Runs a group of operations in one transaction and commits it, durably.
//
// An operation that is refused leaves no trace and disturbs none of the others. One whose writing fails is taken out,
// the rest of its group is undone and run again without it. A full disk or a lock held elsewhere fails the group, and
// the store goes on; any other error of the disk ends it: after a failed fsync nobody knows what is on disk.
// Belongs to the thread that writes.

class GroupCommit {
 public:
  /// Both must outlive it.
  GroupCommit(SqliteDatabase& database, Ledger& ledger);

  /// Fills `results`, one for each operation; answers nobody. Not OK where the store must end.
  absl::Status Run(const OperationGroup& group, std::vector<absl::Status>& results);

 private:
  enum class Outcome { kCommitted, kTryAgain, kFailed };

  absl::StatusOr<Outcome> TryOnce(const OperationGroup& group, std::vector<absl::Status>& results);
  /// The operation whose writing failed, if any.
  std::optional<std::size_t> RunOperations(const OperationGroup& group, std::vector<absl::Status>& results);
  /// After a rollback: the state as the log has it. Not OK where `cause` or the log forbids to go on.
  absl::Status Recover(const absl::Status& cause);

  SqliteDatabase& database_;
  Ledger& ledger_;
  std::vector<bool> taken_out_;  ///< operations of the group that failed while writing
};

// How a thread that waits for an answer is woken.
//
// Waking is dear: a writer that wakes a hundred threads one after the other could have written a hundred labels. So it
// wakes a few of those it has answered, and each of these wakes the next. Who waits sleeps at once: a commit takes
// longer than it is worth looking again, and threads that yield to each other meanwhile keep the writer from its work.

/// Outlives those who wait for it, so that ringing touches nothing of somebody who is awake already and gone. Several
/// may share one; each looks whether its own answer is there whenever it rings. Thread-safe.
class ReplySignal {
 public:
  /// After an answer has been given.
  void Ring();

  /// Returns once `answered` is true. Whoever makes it true rings afterwards, or is the caller itself, before the call.
  void WaitFor(const std::atomic<bool>& answered);

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

/// Somebody who waits for one answer. Wait is called by the thread that made it, Answered once by any thread.
class ReplyWaiter {
 public:
  explicit ReplyWaiter(ReplySignal& bell) : bell_(bell) {}

  /// The answer is there. Wakes who waits, or leaves that to the ChainedWakeups of this thread.
  void Answered();
  void Wait();

 private:
  ReplySignal& bell_;
  ReplySignal* next_ = nullptr;  // of who is woken by this one
  std::atomic<bool> answered_ = false;
};

/// While it lives, those whom its thread answers are woken in chains: the first of each by this thread, the others by
/// one another. One a thread at a time.
class ChainedWakeups {
 public:
  ChainedWakeups();
  ~ChainedWakeups();
  ChainedWakeups(const ChainedWakeups&) = delete;
  ChainedWakeups& operator=(const ChainedWakeups&) = delete;

 private:
  friend class ReplyWaiter;
  /// Puts a bell before the others of the chain; the one that was first before, or null.
  ReplySignal* PutFirst(ReplySignal& bell);
  void EndChain();

  ReplySignal* first_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace fulcrum::storage
