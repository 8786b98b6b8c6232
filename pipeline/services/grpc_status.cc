#include "pipeline/services/grpc_status.h"

#include <string>

namespace fulcrum::pipeline {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message()));
}

}  // namespace fulcrum::pipeline
