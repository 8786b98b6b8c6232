// Arrow's errors as ours: the one place where the two meet.
//
// Arrow names neither the file nor what to do, so every conversion takes what was being done at the time.
// Stateless and thread-safe.
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
#include "parquet/exception.h"

namespace fulcrum::ingest {

/// "`doing`: what Arrow says", with the code a caller can act on: DataLoss if the file is damaged or holds something
/// that cannot be read, ResourceExhausted if memory or disk space ran out. OK stays OK.
absl::Status FromArrow(const arrow::Status& status, absl::string_view doing);

/// The value, or FromArrow of the error.
template <typename T>
absl::StatusOr<T> FromArrow(arrow::Result<T> result, absl::string_view doing) {
  if (!result.ok()) return FromArrow(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

/// Version as the loaded library reports it, not as the headers said when this was compiled.
std::string ArrowVersion();

/// Runs body(), which returns an absl::Status and may throw; an exception becomes a status whose message begins with
/// `doing`: "reading pool.parquet".
template <typename Body>
absl::Status WithoutExceptions(const std::string& doing, const Body& body) {
  try {
    return body();
  } catch (const parquet::ParquetStatusException& error) {
    return FromArrow(error.status(), doing);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(doing, ": memory ran out"));
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat(doing, ": ", error.what()));
  }
}

}  // namespace fulcrum::ingest
