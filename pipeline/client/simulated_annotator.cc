#include "pipeline/client/simulated_annotator.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/labels.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKeepAlivePause{500};
constexpr milliseconds kHoldBackAge{1'000};

// FNV-1a: absl's hashes differ from process to process.
std::uint64_t HashText(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return hash;
}

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
      seed_(options_.seed ^ HashText(options_.annotator)),
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
  Random of_lease = Random::Fork(seed_ ^ HashText(task.item_id), static_cast<std::uint64_t>(task.lease.epoch));
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
  Random of_item = Random::Fork(seed_, HashText(task.item_id));
  if (of_item.Uniform() < options_.accuracy || task.classes.size() < 2) return Decision{.value = right};
  // Among the others: those after the right one move up by one.
  std::size_t wrong = of_item.Below(task.classes.size() - 1);
  if (wrong >= static_cast<std::size_t>(found - task.classes.begin())) ++wrong;
  return Decision{.value = task.classes[wrong]};
}

}  // namespace fulcrum::pipeline
