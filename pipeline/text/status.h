// What an error says to programs, besides its code and message to people: google.rpc's details.
//
// They travel as payloads of an absl::Status up to the edge of the process, and from there as gRPC carries them.
// Stateless and thread-safe.
#pragma once

#include <grpcpp/support/status.h>

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

// From our errors to gRPC's, in one place. The codes are the same ones.

/// With the details that error_details.h attached; what is too long to be sent is cut.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace fulcrum::pipeline

namespace grpc {
class Status;
}  // namespace grpc

namespace fulcrum::pipeline {

// What a gRPC call ended with, as this project's status: the one place where the two meet on the client's side.
//
// Stateless and thread-safe.

/// The same code, with a message that says what to do. `server` is the address that was called.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& server);

/// How one part of a request ended: a google.rpc.Code and its message, as fulcrum.v1.ItemStatus has them.
absl::Status FromItemCode(int code, const std::string& message);

/// Whether the same call may succeed a little later: the server is away, slow or over its limits.
bool MayPass(const absl::Status& status);

}  // namespace fulcrum::pipeline
