#include "pipeline/client/work_summary.h"

#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

void AppendUnlessZero(std::uint64_t count, const std::string& what, std::string& text) {
  if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
}

}  // namespace

std::string DescribeWork(const WorkSummary& summary) {
  std::string text = absl::StrCat(summary.accepted, " labels accepted (", summary.late, " late), ", summary.refused,
                                  " refused, ", summary.skipped, " skipped");
  AppendUnlessZero(summary.undone, "undone", text);
  AppendUnlessZero(summary.released, "handed back", text);
  AppendUnlessZero(summary.lost, "lost to an ended lease", text);
  AppendUnlessZero(summary.repeated, "calls repeated", text);
  if (!summary.last_refusal.empty()) absl::StrAppend(&text, "; the last refusal: ", summary.last_refusal);
  return text;
}

}  // namespace fulcrum::pipeline
