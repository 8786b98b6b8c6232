// One key a class, for a person who answers at a terminal. Stateless and thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

/// Keys in the order of the classes: a class whose name is one letter or digit has it as its key, the others get 1 to 9
/// and then letters. Never 'u', 's' or 'q', which mean undo, skip and quit. FailedPrecondition where there are more
/// classes than keys.
absl::StatusOr<std::string> ClassKeys(const std::vector<std::string>& classes);

}  // namespace fulcrum::pipeline
