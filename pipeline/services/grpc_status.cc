#include "pipeline/services/grpc_status.h"

#include <string>

namespace fulcrum::pipeline {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // Damage on the server is no news that a client can act on differently from a failed precondition, but it is told.
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message()));
}

}  // namespace fulcrum::pipeline
