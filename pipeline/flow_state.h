// How a running flow ends early: the first error, or the caller's wish to stop.
//
// Shared by all nodes of one flow; thread-safe. Nodes ask stopped() before they do any work and let what is
// still on its way pass through empty, so every token comes back and the graph runs dry by itself. That is
// kinder than graph::cancel(), after which try_put claims success and drops its message.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "stages/core/stop_scope.h"
#include "tbb/task_arena.h"

namespace fulcrum::pipeline {

class FlowState {
 public:
  explicit FlowState(std::stop_token stop) : stop_(std::move(stop)) {}

  /// True once there is no point in starting more work.
  bool stopped() const { return failed() || stop_.stop_requested(); }
  /// True once an error was recorded. Who asks this instead lets the call itself find out that it should stop, and so
  /// has its stage's name in the result.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Records an error of a stage; only the first one counts.
  void Fail(const std::string& stage, const absl::Status& status);

  /// The first error; else CANCELLED if the caller asked to stop before `complete`; else OK.
  absl::Status Result(bool complete) const;

  /// Calls a stage's own code inside a StopScope. An exception becomes a status, and a parallel loop inside does not
  /// pick up another node of the graph while it waits. The result is a Status or StatusOr, with the stage's name in
  /// any error already recorded here.
  template <typename Call>
  auto Guard(const std::string& stage, const Call& call) -> std::invoke_result_t<Call> {
    using Result = std::invoke_result_t<Call>;
    Result result = CallCatching<Result>(stop_, call);
    if (!result.ok()) Fail(stage, StatusOf(result));
    return result;
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename ResultOr>
  static const absl::Status& StatusOf(const ResultOr& result) {
    return result.status();
  }

  template <typename Result, typename Call>
  static Result CallCatching(const std::stop_token& stop, const Call& call) {
    // A throw must not reach the graph: the run would end without its tokens and buffers in order.
    try {
      const StopScope scope(stop);
      return tbb::this_task_arena::isolate([&] { return call(); });
    } catch (const StoppedOnRequest& stopped) {
      return absl::CancelledError(stopped.what());
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("memory ran out");
    } catch (const std::exception& error) {
      return absl::InternalError(std::string("an exception was thrown: ") + error.what());
    } catch (...) {
      return absl::InternalError("an exception of unknown type was thrown");
    }
  }

  const std::stop_token stop_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  absl::Status first_error_;  ///< guarded by mutex_
};

}  // namespace fulcrum::pipeline
