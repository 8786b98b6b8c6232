#include "stages/ingest/columns/problem_list.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "stages/core/number_text.h"

namespace fulcrum::ingest {

void ProblemList::Add(std::string problem) {
  if (++count_ <= kMostShown) shown_.push_back(std::move(problem));
}

absl::Status ProblemList::ToStatus(absl::string_view file, absl::string_view what_to_do) const {
  if (empty()) return absl::OkStatus();
  if (count_ == 1) {
    return absl::DataLossError(absl::StrCat(file, ", ", shown_.front(), "\n  what to do: ", what_to_do));
  }
  std::string message = absl::StrCat(file, " has problems:");
  for (const std::string& problem : shown_) absl::StrAppend(&message, "\n  ", problem);
  if (full()) absl::StrAppend(&message, "\n  (there may be more)");
  return absl::DataLossError(absl::StrCat(message, "\n  what to do: ", what_to_do));
}

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
