#include "pipeline/round/flow.h"

#include <exception>
#include <mutex>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "stages/core/parallel.h"

namespace fulcrum::pipeline {

void FlowState::Fail(const std::string& stage, const absl::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (!first_error_.ok()) return;
  first_error_ = absl::Status(status.code(), absl::StrCat(stage, ": ", status.message()));
  status.ForEachPayload(
      [this](absl::string_view type, const absl::Cord& payload) { first_error_.SetPayload(type, payload); });
  failed_.store(true, std::memory_order_release);
}

absl::Status FlowState::Result(bool complete) const {
  const std::scoped_lock lock(mutex_);
  if (!first_error_.ok()) return first_error_;
  if (!complete) return absl::CancelledError("stopped on request before the end of the input");
  return absl::OkStatus();
}

namespace {

/// The first exception that left a call, for the caller of the pass: a flow ends with a status, a stage's numerical
/// code throws.
class FirstException {
 public:
  absl::Status Catching(const BlockStream::BlockCall& call, std::size_t block) {
    try {
      call(block);
      return absl::OkStatus();
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!first_) first_ = std::current_exception();
      return absl::AbortedError("an exception was thrown");
    }
  }

  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;  // guarded by mutex_ while the flow runs
};

class Flow final : public BlockStream {
 public:
  void Run(std::size_t blocks, std::size_t at_once, const BlockCall& work, const BlockCall& take) const override {
    FirstException exception;
    std::size_t next = 0;
    const absl::Status status = RunBoundedFlow(
        {.max_in_flight = at_once, .stop = StopScope::Token()},
        [&]() -> absl::StatusOr<std::optional<std::size_t>> {
          if (next == blocks) return std::nullopt;
          return next++;
        },
        [&](std::size_t block) -> absl::StatusOr<std::size_t> {
          const absl::Status worked = exception.Catching(work, block);
          if (!worked.ok()) return worked;
          return block;
        },
        [&](std::size_t block) { return exception.Catching(take, block); });
    exception.Rethrow();
    if (!status.ok()) throw StoppedOnRequest();  // nothing else is left that can end a flow early
  }
};

}  // namespace

const BlockStream& BlocksInFlow() {
  static const Flow flow;
  return flow;
}

}  // namespace fulcrum::pipeline
