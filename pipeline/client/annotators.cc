#include "pipeline/client/annotators.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/pool.h"

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

namespace {

using Kind = Decision::Kind;

constexpr std::chrono::milliseconds kKeyWait{500};
constexpr int kUndoWaits = 6;  // three seconds

}  // namespace

void TerminalAnnotator::Show(const WorkTask& task, const std::string& keys) {
  std::string text = absl::StrCat("\n[", PrintableLine(task.item_id), "] ",
                                  task.question.empty() ? "Which class?" : PrintableLine(task.question), "\n");
  if (!task.payload.empty()) absl::StrAppend(&text, PrintableText(task.payload), "\n");
  for (std::size_t i = 0; i < task.classes.size(); ++i) {
    absl::StrAppend(&text, "  ", keys.substr(i, 1), " ", PrintableLine(task.classes[i]), "\n");
  }
  absl::StrAppend(&text, "  u undo  s skip  q quit > ");
  terminal_.Write(text);
}

std::optional<char> TerminalAnnotator::WaitForKey(const KeepAlive& keep_alive) {
  while (!terminal_.closed() && keep_alive()) {
    if (const auto key = terminal_.ReadKey(kKeyWait)) return key;
  }
  return std::nullopt;
}

absl::StatusOr<Decision> TerminalAnnotator::Decide(const WorkTask& task, const KeepAlive& keep_alive) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string keys, ClassKeys(task.classes));
  told_idle_ = false;
  told_reasons_.clear();
  Show(task, keys);
  for (;;) {
    const std::optional<char> key = WaitForKey(keep_alive);
    if (!key || *key == 'q') return Decision{.kind = Kind::kQuit};
    if (*key == 'u') return Decision{.kind = Kind::kUndo};
    if (*key == 's') {
      if (const auto skip = AskSkipReason(keep_alive)) return *skip;
      Show(task, keys);
    } else if (const std::size_t place = keys.find(*key); place != std::string::npos) {
      terminal_.Write(absl::StrCat(PrintableLine(task.classes[place]), "\n"));
      return Decision{.value = task.classes[place]};
    }
  }
}

std::optional<Decision> TerminalAnnotator::AskSkipReason(const KeepAlive& keep_alive) {
  terminal_.Write("skip: u unsure  b bad item  n not now  (any other key: back) > ");
  const std::optional<char> key = WaitForKey(keep_alive);
  terminal_.Write("\n");
  if (!key) return Decision{.kind = Kind::kQuit};
  switch (*key) {
    case 'u':
      return Decision{.kind = Kind::kSkip, .skip_reason = SkipReason::kUnsure};
    case 'b':
      return Decision{.kind = Kind::kSkip, .skip_reason = SkipReason::kBadItem};
    case 'n':
      return Decision{.kind = Kind::kSkip, .skip_reason = SkipReason::kNotNow};
    default:
      return std::nullopt;
  }
}

Kind TerminalAnnotator::ReviewLast(const KeepAlive& keep_alive) {
  terminal_.Write("\nThat was the last of these. u takes the last answer back, any other key sends it now. ");
  for (int waits = 0; waits < kUndoWaits && !terminal_.closed() && keep_alive(); ++waits) {
    const std::optional<char> key = terminal_.ReadKey(kKeyWait);
    if (key) return *key == 'u' ? Kind::kUndo : *key == 'q' ? Kind::kQuit : Kind::kLabel;
  }
  return Kind::kLabel;
}

void TerminalAnnotator::OnIdle(const std::vector<std::string>& waiting_for) {
  if (!told_idle_) terminal_.Write("\nNothing to label right now; waiting for more. Ctrl-C leaves.\n");
  told_idle_ = true;
  const std::string reasons = absl::StrJoin(waiting_for, "; ");
  if (reasons.empty() || reasons == std::exchange(told_reasons_, reasons)) return;
  terminal_.Write(absl::StrCat("The campaign waits: ", PrintableLine(reasons), ".\n"));
}

namespace {

constexpr char kKeys[] = "1234567890abcdefghijklmnoprtvwxyz";
constexpr char kCommands[] = "usq";

bool IsOwnKey(const std::string& name) {
  return name.size() == 1 && absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::string(kCommands).find(name[0]) == std::string::npos;
}

}  // namespace

absl::StatusOr<std::string> ClassKeys(const std::vector<std::string>& classes) {
  std::string taken;
  for (const std::string& name : classes) {
    if (IsOwnKey(name)) taken.push_back(name[0]);
  }
  std::string free;
  for (const char key : std::string(kKeys)) {
    if (taken.find(key) == std::string::npos) free.push_back(key);
  }
  std::string keys;
  std::size_t next = 0;
  for (const std::string& name : classes) {
    if (!IsOwnKey(name) && next == free.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("there are ", classes.size(), " classes, more than keys to press; use another labeling tool"));
    }
    keys.push_back(IsOwnKey(name) ? name[0] : free[next++]);
  }
  return keys;
}

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKeepAlivePause{500};
constexpr milliseconds kHoldBackAge{1'000};

Decision Skipped() {
  return {.kind = Decision::Kind::kSkip, .value = {}, .skip_reason = SkipReason::kUnsure};
}

}  // namespace

absl::StatusOr<Oracle> LoadOracle(const std::string& path, const ingest::InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(std::vector<ingest::KnownLabel> labels, ingest::LoadKnownLabels(path, limits));
  Oracle oracle;
  for (ingest::KnownLabel& known : labels) oracle.emplace(std::move(known.id), std::move(known.label));
  if (oracle.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has no labels; name a file that has answers"));
  }
  return oracle;
}

SimulatedAnnotator::SimulatedAnnotator(Oracle oracle, ImitationOptions options, Timing timing)
    : oracle_(std::move(oracle)),
      options_(std::move(options)),
      seed_(options_.seed ^ ChecksumOf(options_.annotator)),
      timing_(std::move(timing)) {}

void SimulatedAnnotator::OnIdle(const std::vector<std::string>& waiting_for) {
  const std::string reasons = absl::StrJoin(waiting_for, "; ");
  if (reasons.empty() || reasons == std::exchange(told_, reasons) || !options_.on_idle) return;
  options_.on_idle(reasons);
}

HoldBack SimulatedAnnotator::hold_back() const {
  return {.count = std::numeric_limits<std::size_t>::max(), .age = kHoldBackAge};
}

bool SimulatedAnnotator::Think(const KeepAlive& keep_alive) const {
  for (milliseconds left = options_.delay; left.count() > 0;) {
    const milliseconds pause = std::min(left, kKeepAlivePause);
    if (!timing_.sleep(pause)) return false;
    left -= pause;
    if (left.count() > 0 && !keep_alive()) return false;
  }
  return keep_alive();
}

absl::StatusOr<Decision> SimulatedAnnotator::Decide(const WorkTask& task, const KeepAlive& keep_alive) {
  if (!Think(keep_alive)) return Decision{.kind = Decision::Kind::kQuit};
  Random of_lease = Random::Fork(seed_ ^ ChecksumOf(task.item_id), static_cast<std::uint64_t>(task.lease.epoch));
  if (of_lease.Uniform() < options_.crash_rate) return Decision{.kind = Decision::Kind::kCrash};
  if (of_lease.Uniform() < options_.skip_rate) return Skipped();
  const auto known = oracle_.find(task.item_id);
  return known == oracle_.end() ? Skipped() : Answer(task, known->second);
}

absl::StatusOr<Decision> SimulatedAnnotator::Answer(const WorkTask& task, const std::string& right) const {
  const auto found = std::find(task.classes.begin(), task.classes.end(), right);
  if (found == task.classes.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--oracle: the answer for '", task.item_id, "' is '", right, "', but the campaign's classes are '",
                     absl::StrJoin(task.classes, "', '"), "'; name a file with the same classes"));
  }
  Random of_item = Random::Fork(seed_, ChecksumOf(task.item_id));
  if (of_item.Uniform() < options_.accuracy || task.classes.size() < 2) return Decision{.value = right};
  // Among the others: those after the right one move up by one.
  std::size_t wrong = of_item.Below(task.classes.size() - 1);
  if (wrong >= static_cast<std::size_t>(found - task.classes.begin())) ++wrong;
  return Decision{.value = task.classes[wrong]};
}

}  // namespace fulcrum::pipeline
