#include "tests/support/thread_communicator.h"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fulcrum::testing {
namespace {

/// Where ranks leave their bytes and find those of all others.
class Exchange {
 public:
  using All = std::shared_ptr<const std::vector<std::string>>;

  explicit Exchange(int ranks) : slots_(static_cast<std::size_t>(ranks)) {}

  All Swap(int rank, std::string bytes) {
    std::unique_lock lock(mutex_);
    if (failed_) throw PeerFailed();
    slots_[static_cast<std::size_t>(rank)] = std::move(bytes);
    const std::uint64_t turn = turn_;
    if (++arrived_ == slots_.size()) {
      all_ = std::make_shared<const std::vector<std::string>>(slots_);
      arrived_ = 0;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn || failed_; });
    if (turn_ == turn) throw PeerFailed();
    // The next turn cannot end before this rank takes part in it.
    return all_;
  }

  void Fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> slots_;
  std::size_t arrived_ = 0;
  std::uint64_t turn_ = 0;
  All all_;
  bool failed_ = false;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Exchange& exchange, int rank, int size) : exchange_(exchange), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override { return "thread"; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  std::vector<std::string> Gather(std::string bytes) const override {
    if (!is_root()) bytes_sent_ += sizeof(std::uint64_t) + bytes.size();
    const Exchange::All all = exchange_.Swap(rank_, std::move(bytes));
    return is_root() ? *all : std::vector<std::string>();
  }
  void Broadcast(std::string& bytes, int from) const override {
    if (rank_ == from) bytes_sent_ += (sizeof(std::uint64_t) + bytes.size()) * static_cast<std::uint64_t>(size_ - 1);
    bytes = (*exchange_.Swap(rank_, rank_ == from ? bytes : std::string()))[static_cast<std::size_t>(from)];
  }
  void ReduceSum(std::span<double> values) const override {
    if (!is_root()) bytes_sent_ += values.size_bytes();
    const Exchange::All all = exchange_.Swap(rank_, BytesOf(std::span<const double>(values)));
    if (!is_root()) return;
    // From the last rank to the first: exact sums do not depend on the order.
    for (std::size_t other = all->size(); other-- > 1;) {
      std::vector<double> theirs;
      AppendFrom((*all)[other], theirs);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
    }
  }
  void Barrier() const override { exchange_.Swap(rank_, {}); }

 private:
  Exchange& exchange_;
  int rank_;
  int size_;
  mutable std::uint64_t bytes_sent_ = 0;  // counted as over MPI
};

}  // namespace

void RunOnRanks(int ranks, const std::function<void(const Communicator& peers)>& body) {
  Exchange exchange(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(ThreadRank(exchange, rank, ranks));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        exchange.Fail();
      }
    });
  }
  threads.clear();
  if (first) std::rethrow_exception(first);
}

}  // namespace fulcrum::testing
