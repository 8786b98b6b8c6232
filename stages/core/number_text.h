// Conversion of numbers to and from text, independent of the locale.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace fulcrum {

/// Parses the whole text as a double ("1", "+1.5", " 2e-3 ", "nan", "-inf"); returns nothing if it is not a number. A
/// value too large for a double is infinite, one too small is zero.
std::optional<double> ParseNumber(absl::string_view text);

/// Appends the shortest text that parses to the same double.
void AppendNumber(double value, std::string& text);

}  // namespace fulcrum
