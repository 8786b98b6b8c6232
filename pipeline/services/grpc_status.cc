#include "pipeline/services/grpc_status.h"

#include <string>

#include "pipeline/error_details.h"

namespace fulcrum::pipeline {
namespace {

// An answer's metadata may have 8 KiB; a client that gets more sees that instead of the error.
constexpr std::size_t kLongestMessage = 3000;
constexpr std::size_t kLongestDetails = 3000;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kLongestMessage) message = message.substr(0, kLongestMessage) + "...";
  std::string details = SerializeDetails(status);
  if (details.size() > kLongestDetails) details.clear();
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), message, details);
}

}  // namespace fulcrum::pipeline
