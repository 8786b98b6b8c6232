// Arrow's errors as ours: the one place where the two meet.
//
// Arrow names neither the file nor what to do, so every conversion takes what was being done at the time.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/result.h"
#include "arrow/status.h"

namespace fulcrum::ingest {

/// "`doing`: what Arrow says", with the code a caller can act on: DataLoss for what is wrong with a file,
/// ResourceExhausted for want of memory. OK stays OK.
absl::Status FromArrow(const arrow::Status& status, absl::string_view doing);

/// The value, or FromArrow of the error.
template <typename T>
absl::StatusOr<T> FromArrow(arrow::Result<T> result, absl::string_view doing) {
  if (!result.ok()) return FromArrow(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

}  // namespace fulcrum::ingest
