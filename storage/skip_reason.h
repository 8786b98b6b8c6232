// Why an annotator did not answer.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::storage {

enum class SkipReason {
  kUnsure,   ///< somebody else should answer
  kBadItem,  ///< nobody can answer: broken, empty, not what it should be
  kNotNow,   ///< the same annotator may be asked again later
};

/// "unsure", "bad item", "not now"
const char* SkipReasonName(SkipReason reason);
absl::StatusOr<SkipReason> ParseSkipReason(absl::string_view name);

}  // namespace fulcrum::storage
