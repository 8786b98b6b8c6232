#include "stages/core/number_text.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"

namespace fulcrum {
namespace {

// from_chars leaves the value alone when it is out of range; the exponent's sign tells which way.
double OutOfRange(absl::string_view digits) {
  const std::size_t exponent = digits.find_first_of("eE");
  const bool tiny = exponent != absl::string_view::npos && exponent + 1 < digits.size() && digits[exponent + 1] == '-';
  const double magnitude = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  return digits.front() == '-' ? -magnitude : magnitude;
}

}  // namespace

std::optional<double> ParseNumber(absl::string_view text) {
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  // from_chars takes no plus sign, and "+-1" is no number.
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
