// How far a command is, for a person who waits: one line that is redrawn on a terminal, a line a stage when
// asked to be verbose, nothing on a pipe. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace fulcrum::pipeline {

enum class ProgressStyle { kSilent, kOneLine, kLinePerStage };

/// One line if standard error is a terminal, silent otherwise; --quiet and --verbose override it.
ProgressStyle ChooseProgressStyle(bool quiet, bool verbose);

class Progress {
 public:
  using Writer = std::function<void(std::string_view text)>;

  /// `title` is what is running ("fulcrum select"). Writes to standard error unless given a writer.
  Progress(std::string title, ProgressStyle style, Writer writer = {});
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` in the stage's own unit; a total of zero is not known.
  void Update(std::string_view stage, std::size_t done, std::size_t total);
  /// For a job whose size is known from the start: a bar and the time left, estimated from what this program has done.
  void UpdateJob(std::string_view what, std::size_t done, std::size_t total);
  /// One part of the job existed before: it counts as done, but not in the time that a part takes.
  void SkipJob();
  /// Removes the line, so that something else can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  void Redraw(std::string_view stage, std::size_t done, std::size_t total, Clock::time_point now);
  void Draw(const std::string& text, Clock::time_point now);

  const std::string title_;
  const ProgressStyle style_;
  const Writer writer_;
  const Clock::time_point start_;

  std::mutex mutex_;
  std::string stage_;
  Clock::time_point last_drawn_;
  bool line_shown_ = false;
  std::size_t skipped_ = 0;
};

/// "2 h 05 min", "3 min 20 s" or "45 s".
std::string DurationText(double seconds);

}  // namespace fulcrum::pipeline
