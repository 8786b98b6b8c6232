// What an error says to programs, besides its code and message to people: google.rpc's details.
//
// They travel as payloads of an absl::Status up to the edge of the process, and from there as gRPC carries them.
// Stateless and thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

struct FieldProblem {
  std::string field = {};  ///< its path, such as "selection.tau"
  std::string what = {};
};

/// google.rpc.RetryInfo: when to try again.
absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay);
std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status);

/// google.rpc.ErrorInfo: a constant such as "RATE_LIMITED".
absl::Status WithReason(absl::Status status, const std::string& reason);

/// google.rpc.BadRequest: which fields are wrong.
absl::Status WithFieldProblems(absl::Status status, const std::vector<FieldProblem>& problems);

/// A serialized google.rpc.Status with all of them; empty where there are none.
std::string SerializeDetails(const absl::Status& status);
/// Attaches what SerializeDetails wrote, or another server. What cannot be read is left out.
absl::Status WithSerializedDetails(absl::Status status, const std::string& details);

}  // namespace fulcrum::pipeline
