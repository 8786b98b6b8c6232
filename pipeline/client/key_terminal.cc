#include "pipeline/client/key_terminal.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "pipeline/client/stop_flag.h"

namespace fulcrum::pipeline {
namespace {

// A signal handler and atexit have no object to ask.
std::atomic<int> terminal_to_restore{-1};
termios mode_to_restore;

void RestoreTerminal() {
  const int descriptor = terminal_to_restore.exchange(-1);
  if (descriptor >= 0) tcsetattr(descriptor, TCSANOW, &mode_to_restore);
}

termios RawMode(termios mode) {
  mode.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  // A worker that is put to sleep would leave the shell without echo, and its leases would run out.
  mode.c_cc[VSUSP] = _POSIX_VDISABLE;
  return mode;
}

}  // namespace

RawTerminal::RawTerminal(int input, int output, const StopFlag& stop) : input_(input), output_(output), stop_(stop) {
  if (tcgetattr(input_, &mode_to_restore) != 0) return;
  static const bool registered = std::atexit(RestoreTerminal) == 0;
  static_cast<void>(registered);
  terminal_to_restore.store(input_);
  StopOnSignals::SetLastAct(RestoreTerminal);
  const termios raw = RawMode(mode_to_restore);
  tcsetattr(input_, TCSANOW, &raw);
}

RawTerminal::~RawTerminal() {
  StopOnSignals::SetLastAct(nullptr);
  RestoreTerminal();
}

std::optional<char> RawTerminal::ReadKey(std::chrono::milliseconds wait) {
  pollfd watched[2] = {{input_, POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}};
  if (closed_ || poll(watched, 2, static_cast<int>(wait.count())) <= 0 || watched[0].revents == 0) return std::nullopt;
  char key = 0;
  const ssize_t count = read(input_, &key, 1);
  if (count == 1) return key;
  closed_ = count == 0 || (errno != EINTR && errno != EAGAIN);
  return std::nullopt;
}

void RawTerminal::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(output_, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace fulcrum::pipeline
