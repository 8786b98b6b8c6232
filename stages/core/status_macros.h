// Early returns for absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Returns the status from the enclosing function unless it is OK.
#define FULCRUM_RETURN_IF_ERROR(expression)                   \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

#define FULCRUM_CONCATENATE_INNER(a, b) a##b
#define FULCRUM_CONCATENATE(a, b) FULCRUM_CONCATENATE_INNER(a, b)

/// Declares or assigns `target` from a StatusOr, or returns its status from the enclosing function.
#define FULCRUM_ASSIGN_OR_RETURN(target, expression) \
  FULCRUM_ASSIGN_OR_RETURN_INNER(FULCRUM_CONCATENATE(status_or_, __LINE__), target, expression)

#define FULCRUM_ASSIGN_OR_RETURN_INNER(status_or, target, expression) \
  auto status_or = (expression);                                      \
  if (!status_or.ok()) {                                              \
    return std::move(status_or).status();                             \
  }                                                                   \
  target = *std::move(status_or)
