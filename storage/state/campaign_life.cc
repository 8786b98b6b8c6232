#include "storage/state/campaign_life.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {
namespace {

constexpr std::array<std::pair<Life, Life>, 10> kTransitions = {{
    {Life::kCreated, Life::kRunning},
    {Life::kCreated, Life::kDone},
    {Life::kRunning, Life::kPaused},
    {Life::kRunning, Life::kDone},
    {Life::kRunning, Life::kFailed},
    {Life::kPaused, Life::kRunning},
    {Life::kPaused, Life::kDone},
    {Life::kFailed, Life::kRunning},
    {Life::kFailed, Life::kDone},
    {Life::kDone, Life::kRunning},
}};

constexpr std::array<Life, 5> kAll = {Life::kCreated, Life::kRunning, Life::kPaused, Life::kDone, Life::kFailed};

}  // namespace

const char* LifeName(Life life) {
  switch (life) {
    case Life::kCreated:
      return "created";
    case Life::kRunning:
      return "running";
    case Life::kPaused:
      return "paused";
    case Life::kDone:
      return "done";
    case Life::kFailed:
      return "failed";
  }
  return "unknown";
}

absl::StatusOr<Life> ParseLife(absl::string_view name) {
  for (const Life life : kAll) {
    if (name == LifeName(life)) return life;
  }
  return absl::DataLossError(absl::StrCat("there is no state '", name.substr(0, 100), "' of a campaign"));
}

bool MayFollow(Life from, Life to) {
  return std::find(kTransitions.begin(), kTransitions.end(), std::pair(from, to)) != kTransitions.end();
}

}  // namespace fulcrum::storage
