// The strategies by name. A new strategy is one file and one line in strategy_registry.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

struct StrategyEntry {
  std::string name;
  std::string summary;      ///< what it is, one line
  std::string when_to_use;  ///< advice, one line
  std::function<std::unique_ptr<Strategy>()> make;
};

/// What is taken where nobody says anything.
inline constexpr char kDefaultStrategy[] = "hybrid";

const std::vector<StrategyEntry>& Strategies();
/// A strategy by name, or an error that lists the names there are.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name);

}  // namespace fulcrum::select
