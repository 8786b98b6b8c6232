#include "stages/ingest/cell_complaint.h"

#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kLongestShownValue = 40;

std::string Quoted(absl::string_view text) {
  if (text.size() <= kLongestShownValue) return absl::StrCat("'", text, "'");
  return absl::StrCat("'", text.substr(0, kLongestShownValue), "...'");
}

}  // namespace

std::string ComplaintAboutText(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return kMissingValue;
  const std::optional<double> value = ParseNumber(text);
  if (!value) return absl::StrCat(Quoted(text), " is not a number");
  if (std::isnan(*value)) return absl::StrCat(Quoted(text), " is not a number (NaN)");
  return absl::StrCat(Quoted(text), std::isinf(*value) ? " is infinite" : " does not fit a 32-bit float");
}

std::string ComplaintAboutNumber(double value) {
  if (std::isnan(value)) return "the value is NaN";
  return absl::StrCat("the value ", value, std::isinf(value) ? " is infinite" : " does not fit a 32-bit float");
}

}  // namespace fulcrum::ingest
