#include "pipeline/campaign/crash_marker.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kRunning[] = "running";
constexpr char kIdle[] = "idle";

}  // namespace

absl::StatusOr<CrashMarker> CrashMarker::Open(std::string path) {
  CrashMarker marker(std::move(path));
  std::ifstream file(marker.path_);
  std::string state;
  // A file that cannot be read is not worth refusing the work: at worst one death is not counted.
  if (!file || !(file >> marker.work_ >> marker.deaths_ >> state) || marker.deaths_ < 0) {
    marker.work_.clear();
    marker.deaths_ = 0;
    return marker;
  }
  if (state != kRunning) return marker;
  ++marker.deaths_;
  FULCRUM_RETURN_IF_ERROR(marker.Write(/*running=*/false, /*durable=*/true));
  return marker;
}

absl::Status CrashMarker::Write(bool running, bool durable) const {
  const std::string text = absl::StrCat(work_, " ", deaths_, " ", running ? kRunning : kIdle, "\n");
  if (durable) return ReplaceFile(path_, text);
  if (std::ofstream(path_) << text << std::flush) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write '", path_, "'; is the disk full?"));
}

absl::Status CrashMarker::Begin(const std::string& work, bool durable) {
  if (work != work_) deaths_ = 0;
  work_ = work;
  return Write(/*running=*/true, durable);
}

absl::Status CrashMarker::End() {
  deaths_ = 0;
  std::error_code error;
  // Not synced: if a power loss brings the file back, one death too many is counted, which alone has no effect.
  std::filesystem::remove(path_, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove '", path_, "': ", error.message()));
}

absl::Status CrashMarker::Cancel() {
  return deaths_ == 0 ? End() : Write(/*running=*/false, /*durable=*/true);
}

absl::StatusOr<RoundMarker> RoundMarker::Open(const std::string& folder) {
  FULCRUM_ASSIGN_OR_RETURN(CrashMarker marker, CrashMarker::Open(folder + "/round.marker"));
  return RoundMarker(std::move(marker));
}

std::int64_t RoundMarker::round() const {
  std::int64_t round = 0;
  return absl::SimpleAtoi(marker_.work(), &round) ? round : 0;
}

absl::Status RoundMarker::BeginRound(std::int64_t round) {
  return marker_.Begin(absl::StrCat(round));
}

namespace {

/// An annotator who is listed in the specification or has worked, and may take tasks.
struct KnownAnnotator {
  absl::string_view name = {};
  double left = 0;  ///< of its own budget
};

std::vector<KnownAnnotator> KnownAnnotators(const storage::CampaignState& state) {
  std::set<absl::string_view> names;
  for (const auto& [name, terms] : state.settings().annotators) names.insert(name);
  for (const auto& [name, activity] : state.activity().all()) names.insert(name);
  std::vector<KnownAnnotator> known;
  for (const absl::string_view name : names) {
    if (!state.paused().contains(std::string(name))) known.push_back({name, state.LeftFor(name)});
  }
  return known;
}

/// Whether `left` pays for the cheapest answer that may be expected: by a known annotator who may answer the item. A
/// newcomer, who costs nothing of its own, is expected only if none of them may.
bool PaysFor(const storage::CampaignState& state, const storage::Item& item, const std::vector<KnownAnnotator>& known,
             double left) {
  bool expected = false;
  for (const KnownAnnotator& annotator : known) {
    const double cost = state.CostOf(item, annotator.name);
    if (cost > annotator.left || !state.MayAnswer(item, annotator.name)) continue;
    if (cost <= left) return true;
    expected = true;
  }
  return !expected && item.cost <= left;
}

/// Why the budgets allow no more answers in the open round; empty if they do, or may once the live leases have ended.
std::string ReasonToClose(const storage::CampaignState& state) {
  const storage::CampaignSettings& settings = state.settings();
  const storage::Totals& totals = state.totals();
  if (settings.label_budget > 0 && totals.labels >= settings.label_budget) {
    return absl::StrCat("label budget reached (", totals.labels, " of ", settings.label_budget, ")");
  }
  if (settings.cost_budget <= 0) return "";
  if (totals.cost >= settings.cost_budget) {
    return absl::StrCat("cost budget reached (", totals.cost, " of ", settings.cost_budget, ")");
  }
  if (!state.leases().empty() || state.items().open_slots() == 0) return "";
  const double left = settings.cost_budget - totals.cost;
  const std::vector<KnownAnnotator> known = KnownAnnotators(state);
  bool affordable = false;
  state.items().VisitOpenSlots([&](const storage::Item& item, const storage::Slot&) {
    affordable = PaysFor(state, item, known, left);
    return !affordable;
  });
  if (affordable) return "";
  return absl::StrCat("the remaining ", left, " of the cost budget of ", settings.cost_budget,
                      " does not pay for any open task");
}

}  // namespace

absl::StatusOr<SpentAnswer> CloseIfSpent(storage::Ledger& ledger, const SpentRequest& request) {
  const storage::Round* const open = ledger.state().rounds().open();
  if (open == nullptr || open->number != request.round) return SpentAnswer{};
  const std::string reason = ReasonToClose(ledger.state());
  if (reason.empty()) return SpentAnswer{};
  // A batch without a single affordable task says that the next one would not have any either.
  const bool hopeless = open->progress().labeled == 0;
  FULCRUM_RETURN_IF_ERROR(storage::AdvanceRound(ledger, {.round = request.round, .forced = reason}).status());
  return SpentAnswer{
      .closed = true, .over = hopeless ? reason : "", .decided_under = ledger.state().settings().specification};
}

}  // namespace fulcrum::pipeline
