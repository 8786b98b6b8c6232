#include "stages/ingest/class_names.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {
namespace {

bool IsNumber(const std::string& name) {
  const std::optional<double> value = ParseNumber(name);
  return value && std::isfinite(*value);
}

}  // namespace

ClassNames::ClassNames(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) index_of_name_[names_[i]] = static_cast<ClassIndex>(i);
}

absl::StatusOr<ClassNames> ClassNames::FromLabels(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (std::all_of(labels.begin(), labels.end(), IsNumber)) {
    std::stable_sort(labels.begin(), labels.end(),
                     [](const std::string& a, const std::string& b) { return *ParseNumber(a) < *ParseNumber(b); });
    for (std::size_t i = 1; i < labels.size(); ++i) {
      if (*ParseNumber(labels[i - 1]) < *ParseNumber(labels[i])) continue;
      return absl::DataLossError(absl::StrCat("the labels '", labels[i - 1], "' and '", labels[i],
                                              "' are the same number written differently; write them alike in all "
                                              "files"));
    }
  }
  return ClassNames(std::move(labels));
}

ClassIndex ClassNames::Find(absl::string_view name) const {
  const auto found = index_of_name_.find(name);
  return found == index_of_name_.end() ? kUnlabeled : found->second;
}

}  // namespace fulcrum::ingest
