#include "stages/ingest/arrow_status.h"

#include "absl/strings/str_cat.h"
#include "arrow/config.h"

namespace fulcrum::ingest {
namespace {

absl::StatusCode CodeOf(const arrow::Status& status) {
  switch (status.code()) {
    case arrow::StatusCode::OutOfMemory:
    case arrow::StatusCode::CapacityError:
      return absl::StatusCode::kResourceExhausted;
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::KeyError:
    case arrow::StatusCode::IndexError:
    case arrow::StatusCode::SerializationError:
    case arrow::StatusCode::IOError:
      return absl::StatusCode::kDataLoss;
    case arrow::StatusCode::NotImplemented:
      return absl::StatusCode::kUnimplemented;
    case arrow::StatusCode::Cancelled:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FromArrow(const arrow::Status& status, absl::string_view doing) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(CodeOf(status), absl::StrCat(doing, ": ", status.message()));
}

std::string ArrowVersion() {
  return arrow::GetBuildInfo().version_string;
}

}  // namespace fulcrum::ingest
