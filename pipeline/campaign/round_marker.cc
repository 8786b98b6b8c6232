#include "pipeline/campaign/round_marker.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

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

}  // namespace fulcrum::pipeline
