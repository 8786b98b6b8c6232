// Long computations that Ctrl-C ends.
//
// Python handles signals on the main thread only, and only between bytecodes. A computation therefore runs on a thread
// of its own while the calling thread, without the GIL, waits for it and asks for signals several times per second.
// Threads are kept for the next call, because linear algebra libraries keep buffers per thread.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace fulcrum::python {

/// A thread that runs one job at a time, until the process ends. A child of fork() has none of its parent's threads and
/// makes its own.
class CallThread {
 public:
  /// An idle thread, or a new one.
  static std::shared_ptr<CallThread> Take();
  /// Back to the idle ones.
  static void Return(std::shared_ptr<CallThread> thread);

  void Post(std::function<void()> job);

 private:
  CallThread() = default;
  void Loop();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::function<void()> job_;
};

/// Returns body(stop_token). If a signal handler raises, as that of Ctrl-C does, the computation is asked to stop, and
/// the exception is raised when it has.
template <typename Body>
auto RunInterruptibly(const Body& body) {
  constexpr auto kBetweenChecks = std::chrono::milliseconds(50);
  std::stop_source stop;
  using Result = decltype(body(stop.get_token()));
  std::packaged_task<Result()> task([&] { return body(stop.get_token()); });
  std::future<Result> result = task.get_future();
  bool interrupted = false;
  {
    const pybind11::gil_scoped_release release;
    const std::shared_ptr<CallThread> thread = CallThread::Take();
    thread->Post([&task] { task(); });
    while (result.wait_for(kBetweenChecks) != std::future_status::ready) {
      if (interrupted) continue;
      const pybind11::gil_scoped_acquire acquire;
      interrupted = PyErr_CheckSignals() != 0;
      if (interrupted) stop.request_stop();
    }
    CallThread::Return(thread);
  }
  if (interrupted) throw pybind11::error_already_set();
  return result.get();
}

}  // namespace fulcrum::python
