// Exceptions of libraries end here: what a reader throws becomes a status that says what was being done.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::ingest {

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
