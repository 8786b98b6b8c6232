#include "stages/core/number_text.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"

namespace fulcrum {
namespace {

// from_chars does not set the value if it is out of range; the sign of the exponent tells overflow from underflow.
double OutOfRange(absl::string_view digits) {
  const std::size_t exponent = digits.find_first_of("eE");
  const bool tiny = exponent != absl::string_view::npos && exponent + 1 < digits.size() && digits[exponent + 1] == '-';
  const double magnitude = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  return digits.front() == '-' ? -magnitude : magnitude;
}

}  // namespace

std::optional<double> ParseNumber(absl::string_view text) {
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  // from_chars does not accept a plus sign, and "+-1" is not a number.
  if (digits.size() > 1 && digits.front() == '+' && digits[1] != '-') digits.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return OutOfRange(digits);
  if (error != std::errc()) return std::nullopt;
  return value;
}

void AppendNumber(double value, std::string& text) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  text.append(buffer, end);
}

}  // namespace fulcrum
