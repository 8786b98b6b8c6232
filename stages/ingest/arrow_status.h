// Arrow's errors as ours: the one place where the two meet.
//
// Arrow names neither the file nor what to do, so every conversion takes what was being done at the time.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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

// Which Arrow answers at run time.

/// Version as the loaded library reports it, not as the headers said when this was compiled.
std::string ArrowVersion();

// Exceptions of libraries end here: what a reader throws becomes a status that says what was being done.

/// Runs body(), which returns an absl::Status and may throw. `doing` opens the message: "reading pool.parquet".
template <typename Body>
absl::Status WithoutExceptions(const std::string& doing, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(doing, ": memory ran out"));
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat(doing, ": ", error.what()));
  }
}

}  // namespace fulcrum::ingest
