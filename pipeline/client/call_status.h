// What a gRPC call ended with, as this project's status: the one place where the two meet on the client's side.
//
// Stateless and thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace fulcrum::pipeline {

/// The same code, with a message that says what to do. `server` is the address that was called.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& server);

/// How one part of a request ended: a google.rpc.Code and its message, as fulcrum.v1.ItemStatus has them.
absl::Status FromItemCode(int code, const std::string& message);

/// Whether the same call may succeed a little later: the server is away, slow or over its limits.
bool MayPass(const absl::Status& status);

}  // namespace fulcrum::pipeline
