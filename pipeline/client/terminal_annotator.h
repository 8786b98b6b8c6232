// A person at a terminal: sees the question and the payload, presses one key a class.
//
//   u  takes the last answer back (it is sent when the next one is given)
//   s  skips, and asks for the reason
//   q  quits; what is held is handed back
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/client/annotator.h"
#include "pipeline/client/key_terminal.h"

namespace fulcrum::pipeline {

class TerminalAnnotator final : public Annotator {
 public:
  /// The terminal must outlive it.
  explicit TerminalAnnotator(KeyTerminal& terminal) : terminal_(terminal) {}

  absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) override;
  Decision::Kind ReviewLast(const KeepAlive& keep_alive) override;
  void OnIdle() override;
  HoldBack hold_back() const override { return {.count = 1}; }

 private:
  void Show(const WorkTask& task, const std::string& keys);
  /// Nothing when it should quit.
  std::optional<char> WaitForKey(const KeepAlive& keep_alive);
  /// Nothing where the person thinks better of it.
  std::optional<Decision> AskSkipReason(const KeepAlive& keep_alive);

  KeyTerminal& terminal_;
  bool told_idle_ = false;
};

}  // namespace fulcrum::pipeline
