#include "pipeline/commands/exit_codes.h"

namespace fulcrum::pipeline {

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return kExitBadData;
    case absl::StatusCode::kOutOfRange:
      return kExitNothingLeft;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTryAgain;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitNotAllowed;
    default:
      return kExitInternal;
  }
}

const char* ExitCodeHelp() {
  return "Exit codes:\n"
         "   0  done\n"
         "   2  usage: an option is unknown, missing or out of its range\n"
         "  65  bad data: a file is missing, damaged, cannot be read or does not match the others\n"
         "  70  internal error: please report it\n"
         "  75  try again: out of memory or disk space, or the server is unavailable\n"
         "  77  not allowed: the token is missing, unknown, or has the wrong role\n"
         "  99  nothing left to select";
}

}  // namespace fulcrum::pipeline
