// Numbers as text, both ways, without a locale.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace fulcrum {

/// The whole text as a double ("1", "+1.5", " 2e-3 ", "nan", "-inf"), or nothing. A value too large for a
/// double is infinite, one too small is zero.
std::optional<double> ParseNumber(absl::string_view text);

/// Appends the shortest text that reads back as the same double.
void AppendNumber(double value, std::string& text);

}  // namespace fulcrum
