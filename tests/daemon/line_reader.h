// Lines that a process writes, taken from its pipe as they come, so that it never stands still because nobody reads.
//
// For one thread; the reading is done by another, which is its own.
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
  /// Takes over the descriptor, and closes it at the end.
  explicit LineReader(int descriptor);
  /// Waits until all writers have closed their end.
  ~LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line, which is waited for; nothing where there will be none.
  std::optional<std::string> Next();

 private:
  void Read(int descriptor);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
  bool over_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::testing
