// From our errors to gRPC's, in one place. The codes are the same ones.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

/// With the details that error_details.h attached; what is too long to be sent is cut.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace fulcrum::pipeline
