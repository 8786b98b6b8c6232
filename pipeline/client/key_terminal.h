// A terminal that gives keys as they are pressed.
//
// RawTerminal switches line editing and echo off while it lives and puts the terminal back as it was: in its
// destructor, and when a second signal ends the process. At most one at a time. Not thread-safe.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
