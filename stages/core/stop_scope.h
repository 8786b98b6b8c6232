// How a long computation ends early when nobody wants its result any more.
//
// The caller opens a StopScope with its std::stop_token. Everything that runs below it on this thread, and in the
// parallel loops of parallel.h that it starts, belongs to the scope, so that a token need not travel through every
// signature of the numerical code. Loops ask between their blocks and end with an exception, since half a result must
// not travel on; who opened the scope catches it. Outside any scope nothing is ever stopped. Scopes are a thread's own
// and may be nested.
#pragma once

#include <exception>
#include <stop_token>
#include <utility>

namespace fulcrum {

/// Thrown out of a computation whose scope was asked to stop.
class StoppedOnRequest final : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

class StopScope {
 public:
  explicit StopScope(std::stop_token stop) : stop_(std::move(stop)), outer_(std::exchange(innermost_, this)) {}
  ~StopScope() { innermost_ = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// The token of the innermost scope of this thread, for a loop that goes on in other threads.
  static std::stop_token Token() { return innermost_ == nullptr ? std::stop_token() : innermost_->stop_; }

 private:
  friend void ThrowIfStopRequested();

  const std::stop_token stop_;
  StopScope* const outer_;
  static thread_local constinit inline StopScope* innermost_ = nullptr;
};

/// Call it in any loop that may take longer than a person waits, a few times a second or more often.
inline void ThrowIfStopRequested() {
  if (StopScope::innermost_ != nullptr && StopScope::innermost_->stop_.stop_requested()) throw StoppedOnRequest();
}

}  // namespace fulcrum
