// The smallest and largest value of every number that a client may send: one table for the specification of a campaign
// and for the requests of all services.
//
// The check walks a message by reflection, so that a new numeric or Duration field without a line in the table fails
// field_limits_test.cc instead of reaching the code that uses it. Stateless and thread-safe.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/text/status.h"

namespace fulcrum::pipeline {

/// The range of one field. For a Duration the numbers are seconds. NaN and infinities are outside of every range.
struct FieldLimit {
  const char* field;  ///< its full name without the package, such as "KernelSpec.sigma"
  double low;
  double high;
  bool above_low = false;   ///< `low` itself is not allowed
  bool below_high = false;  ///< `high` itself is not allowed
};

/// The whole table.
std::span<const FieldLimit> FieldLimits();

/// Every number below `message` that is outside of its range, and every enumeration value that does not exist, with the
/// path of the field, the value and the range.
std::vector<FieldProblem> FindNumbersOutOfRange(const google::protobuf::Message& message);

/// InvalidArgument with everything that FindNumbersOutOfRange finds in a request.
absl::Status CheckNumbers(const google::protobuf::Message& request);

/// Full names of the numeric and Duration fields reachable from `type` that the table does not have.
std::vector<std::string> FieldsWithoutLimit(const google::protobuf::Descriptor& type);

}  // namespace fulcrum::pipeline
