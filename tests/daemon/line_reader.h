// Reads the lines that a process writes to a pipe in the background, so that the process never blocks on a full pipe.
//
// Not thread-safe; reading is done by an internal thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace fulcrum::testing {

class LineReader {
 public:
  /// Takes ownership of the descriptor.
  explicit LineReader(int descriptor);
  /// Waits until all writers have closed their end.
  ~LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Waits for the next line; returns nothing at the end.
  std::optional<std::string> Next();

 private:
  void Read(int descriptor);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
  bool over_ = false;
  std::jthread thread_;  // last, because it uses all other members
};

}  // namespace fulcrum::testing
