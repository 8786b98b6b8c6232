#include "pipeline/campaign/crash_marker.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

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

}  // namespace fulcrum::pipeline
