#include "stages/ingest/problem_list.h"

#include <utility>

#include "absl/strings/str_cat.h"

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

}  // namespace fulcrum::ingest
