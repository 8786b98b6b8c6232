// The exit codes of the program.
#pragma once

#include "absl/status/status.h"

namespace fulcrum::pipeline {

inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadData = 65;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitTryAgain = 75;
inline constexpr int kExitNotAllowed = 77;
inline constexpr int kExitNothingLeft = 99;

/// InvalidArgument is a wrong option; DataLoss, NotFound, FailedPrecondition and AlreadyExists are wrong
/// data; OutOfRange is nothing left to select; ResourceExhausted, Unavailable and DeadlineExceeded may pass;
/// Unauthenticated and PermissionDenied need another token; all others are internal errors.
int ExitCodeFor(const absl::Status& status);

/// The codes for people, one line each, as the help texts show them.
const char* ExitCodeHelp();

}  // namespace fulcrum::pipeline
