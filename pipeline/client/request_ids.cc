#include "pipeline/client/request_ids.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {

RequestIds::RequestIds() {
  // A seed would make a restarted worker repeat itself, which the server takes for a repeated request.
  std::random_device device;
  for (int word = 0; word < 3; ++word) absl::StrAppendFormat(&prefix_, "%08x", device());
}

std::string RequestIds::Next() {
  return absl::StrCat(prefix_, "-", ++count_);
}

}  // namespace fulcrum::pipeline
