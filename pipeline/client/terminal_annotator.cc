#include "pipeline/client/terminal_annotator.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "pipeline/client/class_keys.h"
#include "pipeline/client/printable_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
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

void TerminalAnnotator::OnIdle() {
  if (!told_idle_) terminal_.Write("\nNothing to label right now; waiting for more. Ctrl-C leaves.\n");
  told_idle_ = true;
}

}  // namespace fulcrum::pipeline
