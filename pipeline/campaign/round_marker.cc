#include "pipeline/campaign/round_marker.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/state/round_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFileName[] = "/round.marker";
constexpr char kRunning[] = "running";
constexpr char kIdle[] = "idle";

}  // namespace

absl::StatusOr<RoundMarker> RoundMarker::Open(const std::string& folder) {
  RoundMarker marker(folder + kFileName);
  std::ifstream file(marker.path_);
  std::string state;
  // A file that cannot be read is not worth refusing a campaign: at worst one death is not counted.
  if (!file || !(file >> marker.round_ >> marker.deaths_ >> state) || marker.deaths_ < 0) {
    marker.round_ = marker.deaths_ = 0;
    return marker;
  }
  if (state != kRunning) return marker;
  ++marker.deaths_;
  FULCRUM_RETURN_IF_ERROR(marker.Write(/*running=*/false));
  return marker;
}

absl::Status RoundMarker::Write(bool running) const {
  return ReplaceFile(path_, absl::StrCat(round_, " ", deaths_, " ", running ? kRunning : kIdle, "\n"));
}

absl::Status RoundMarker::BeginRound(std::int64_t round) {
  if (round != round_) deaths_ = 0;
  round_ = round;
  return Write(/*running=*/true);
}

absl::Status RoundMarker::EndRound() {
  deaths_ = 0;
  std::error_code error;
  // Not synced: if a power loss brings the file back, one death too many is counted, which alone has no effect.
  std::filesystem::remove(path_, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove '", path_, "': ", error.message()));
}

absl::Status RoundMarker::CancelRound() {
  return deaths_ == 0 ? EndRound() : Write(/*running=*/false);
}

namespace {

/// Why the budgets allow no more answers in the open round; empty if they do, or may once the live leases have ended.
std::string ReasonToClose(const storage::CampaignState& state) {
  const storage::CampaignSettings& settings = state.settings();
  const storage::Totals& totals = state.totals();
  if (settings.label_budget > 0 && totals.labels >= settings.label_budget) {
    return absl::StrCat("the label budget is spent: ", totals.labels, " of ", settings.label_budget);
  }
  if (settings.cost_budget <= 0) return "";
  if (totals.cost >= settings.cost_budget) {
    return absl::StrCat("the cost budget is spent: ", totals.cost, " of ", settings.cost_budget);
  }
  if (!state.leases().empty() || state.items().open_slots() == 0) return "";
  const double left = settings.cost_budget - totals.cost;
  bool affordable = false;
  state.items().VisitOpenSlots([&](const storage::Item& item, const storage::Slot&) {
    affordable = item.cost <= left;
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
  return SpentAnswer{.closed = true, .over = hopeless ? reason : ""};
}

}  // namespace fulcrum::pipeline
