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
  std::string summary;      ///< one-line description
  std::string when_to_use;  ///< one-line advice
  std::function<std::unique_ptr<Strategy>()> make;
};

/// The default strategy.
inline constexpr char kDefaultStrategy[] = "adaptive-herding";
/// Makes the batch as long as a strategy that needs labels has none of two classes.
inline constexpr char kStrategyWithoutLabels[] = "herding";

const std::vector<StrategyEntry>& Strategies();
/// Returns a strategy by name, or an error that lists the existing names.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name);

}  // namespace fulcrum::select
