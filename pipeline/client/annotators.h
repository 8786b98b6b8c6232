// A person at a terminal: sees the question and the payload, presses one key a class.
//
//   u  takes the last answer back (it is sent when the next one is given)
//   s  skips, and asks for the reason
//   q  quits; what is held is handed back
//
// Not thread-safe.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/server_connection.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {

// A terminal that gives keys as they are pressed.
//
// RawTerminal switches line editing and echo off while it lives and puts the terminal back as it was: in its
// destructor, and when a second signal ends the process. At most one at a time. Not thread-safe.

class StopFlag;

class KeyTerminal {
 public:
  virtual ~KeyTerminal() = default;
  /// The next key, or nothing after `wait` or where the terminal has gone.
  virtual std::optional<char> ReadKey(std::chrono::milliseconds wait) = 0;
  virtual void Write(std::string_view text) = 0;
  /// Nothing will come any more.
  virtual bool closed() const = 0;
};

class RawTerminal final : public KeyTerminal {
 public:
  /// Of a descriptor that is a terminal. `stop` must outlive it; once raised, ReadKey does not wait.
  RawTerminal(int input, int output, const StopFlag& stop);
  ~RawTerminal() override;
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  std::optional<char> ReadKey(std::chrono::milliseconds wait) override;
  void Write(std::string_view text) override;
  bool closed() const override { return closed_; }

 private:
  const int input_;
  const int output_;
  const StopFlag& stop_;
  bool closed_ = false;
};

// An annotator who answers tasks: a person at a terminal, or a file that imitates people.
//
// Called from one thread.

/// What an annotator does about a task.
struct Decision {
  enum class Kind { kLabel, kSkip, kUndo, kQuit, kCrash };

  Kind kind = Kind::kLabel;
  std::string value = {};                        ///< of kLabel
  SkipReason skip_reason = SkipReason::kUnsure;  ///< of kSkip
};

/// Answers that are not sent yet: so many, and as long as they are no older.
struct HoldBack {
  std::size_t count = 0;
  std::chrono::milliseconds age = std::chrono::hours(24 * 365);
};

class Annotator {
 public:
  /// To be called about every second while an annotator thinks, so that leases are renewed; false when it should quit.
  using KeepAlive = std::function<bool()>;

  virtual ~Annotator() = default;

  virtual absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) = 0;
  /// Asked when all tasks are answered and the last answer is about to be sent: kLabel to send it and go on, kUndo to
  /// take it back, kQuit to send it and leave.
  virtual Decision::Kind ReviewLast(const KeepAlive& keep_alive) {
    static_cast<void>(keep_alive);
    return Decision::Kind::kLabel;
  }
  /// There is nothing to do now; `waiting_for` says what the campaign waits for, if the server does.
  virtual void OnIdle(const std::vector<std::string>& waiting_for) { static_cast<void>(waiting_for); }
  /// Whether payloads are looked at: large ones are fetched only then.
  virtual bool shows_payloads() const { return false; }
  /// How far answers are kept back, for an undo or for fewer calls.
  virtual HoldBack hold_back() const = 0;
};

class TerminalAnnotator final : public Annotator {
 public:
  /// The terminal must outlive it.
  explicit TerminalAnnotator(KeyTerminal& terminal) : terminal_(terminal) {}

  absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) override;
  Decision::Kind ReviewLast(const KeepAlive& keep_alive) override;
  void OnIdle(const std::vector<std::string>& waiting_for) override;
  bool shows_payloads() const override { return true; }
  HoldBack hold_back() const override { return {.count = 1}; }

 private:
  void Show(const WorkTask& task, const std::string& keys);
  /// Nothing when it should quit.
  std::optional<char> WaitForKey(const KeepAlive& keep_alive);
  /// Nothing if the person thinks better of it.
  std::optional<Decision> AskSkipReason(const KeepAlive& keep_alive);

  KeyTerminal& terminal_;
  std::string told_reasons_;
  bool told_idle_ = false;
};

// One key a class, for a person who answers at a terminal. Stateless and thread-safe.

/// Keys in the order of the classes: a class whose name is one letter or digit has it as its key, the others get 1 to 9
/// and then letters. Never 'u', 's' or 'q', which mean undo, skip and quit. FailedPrecondition if there are more
/// classes than keys.
absl::StatusOr<std::string> ClassKeys(const std::vector<std::string>& classes);

// An annotator that knows the answers from a file and imitates people: sometimes wrong, slow, unsure, or gone.
//
// What it answers about an example depends on the seed, the annotator's name and the example's alone, so a task that
// comes a second time, to this worker or to a restarted one, gets the same answer. Whether it skips or crashes depends
// on the lease, so that a restarted worker does not crash over the same task for ever. Not thread-safe.

/// The right answers: label by item id.
using Oracle = absl::flat_hash_map<std::string, std::string>;

/// From a label file (id,label), or a pool with a label column.
absl::StatusOr<Oracle> LoadOracle(const std::string& path, const ingest::InputLimits& limits = {});

struct ImitationOptions {
  double accuracy = 1;    ///< share of right answers; wrong ones are uniform over the other classes
  double skip_rate = 0;   ///< share of tasks skipped as unsure
  double crash_rate = 0;  ///< share of tasks over which the worker dies
  std::chrono::milliseconds delay{0};
  std::uint64_t seed = 1;
  std::string annotator = {};  ///< two annotators err about different examples
  /// Told what the campaign waits for when there is nothing to do and that has changed; may be null.
  std::function<void(const std::string&)> on_idle = {};
};

class SimulatedAnnotator final : public Annotator {
 public:
  SimulatedAnnotator(Oracle oracle, ImitationOptions options, Timing timing);

  /// FailedPrecondition if the file has an answer that is none of the classes. Skips what the file does not have.
  absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) override;
  void OnIdle(const std::vector<std::string>& waiting_for) override;
  HoldBack hold_back() const override;

 private:
  /// False when it should quit.
  bool Think(const KeepAlive& keep_alive) const;
  absl::StatusOr<Decision> Answer(const WorkTask& task, const std::string& right) const;

  const Oracle oracle_;
  const ImitationOptions options_;
  const std::uint64_t seed_;
  const Timing timing_;
  std::string told_;
};

}  // namespace fulcrum::pipeline
