// Machine-readable details of an error (google.rpc), in addition to its code and message.
//
// Inside the process they are payloads of an absl::Status; gRPC transmits them as error details.
// Stateless and thread-safe.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

struct FieldProblem {
  std::string field = {};  ///< its path, such as "selection.tau"
  std::string what = {};
};

/// google.rpc.RetryInfo: when to retry.
absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay);
std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status);

/// google.rpc.ErrorInfo: a constant such as "RATE_LIMITED".
absl::Status WithReason(absl::Status status, const std::string& reason);

/// google.rpc.BadRequest: which fields are wrong.
absl::Status WithFieldProblems(absl::Status status, const std::vector<FieldProblem>& problems);

/// A serialized google.rpc.Status with all details; empty if there are none.
std::string SerializeDetails(const absl::Status& status);
/// Attaches details written by SerializeDetails or by another server. Details that cannot be parsed are dropped.
absl::Status WithSerializedDetails(absl::Status status, const std::string& details);

// Converts our errors to gRPC's. The codes are identical.

/// Includes the attached details; text that is too long to be sent is truncated.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace fulcrum::pipeline

namespace grpc {
class Status;
}  // namespace grpc

namespace fulcrum::pipeline {

// Converts the status of a gRPC call to absl::Status, on the client's side.
//
// Stateless and thread-safe.

/// The same code, with a message that says what to do. `server` is the address that was called.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& server);

/// The status of one part of a request: a google.rpc.Code and its message, as in fulcrum.v1.ItemStatus.
absl::Status FromItemCode(int code, const std::string& message);

/// Whether a retry of the same call may succeed: the server is unreachable, slow or over its limits.
bool MayPass(const absl::Status& status);

/// Runs `act`. What it throws becomes a status: an exception in one call must not end the process, and the caller must
/// get an answer.
absl::Status RunGuarded(const std::function<absl::Status()>& act);

}  // namespace fulcrum::pipeline
