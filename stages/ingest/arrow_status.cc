#include "stages/ingest/arrow_status.h"

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "arrow/config.h"
#include "arrow/util/io_util.h"

namespace fulcrum::ingest {
namespace {

bool IsDiskFull(const arrow::Status& status) {
  const int error = arrow::internal::ErrnoFromStatus(status);
  return error == ENOSPC || error == EDQUOT;
}

absl::StatusCode CodeOf(const arrow::Status& status) {
  if (IsDiskFull(status)) return absl::StatusCode::kResourceExhausted;
  switch (status.code()) {
    case arrow::StatusCode::OutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    // A value or a type that Arrow cannot hold or read is in the file: another attempt ends the same way.
    case arrow::StatusCode::CapacityError:
    case arrow::StatusCode::NotImplemented:
    case arrow::StatusCode::UnknownError:
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::KeyError:
    case arrow::StatusCode::IndexError:
    case arrow::StatusCode::SerializationError:
    case arrow::StatusCode::IOError:
      return absl::StatusCode::kDataLoss;
    case arrow::StatusCode::Cancelled:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FromArrow(const arrow::Status& status, absl::string_view doing) {
  if (status.ok()) return absl::OkStatus();
  std::string message = absl::StrCat(doing, ": ", status.message());
  if (status.detail() != nullptr) absl::StrAppend(&message, " (", status.detail()->ToString(), ")");
  if (IsDiskFull(status)) absl::StrAppend(&message, "; the disk is full: free some space and run again");
  return absl::Status(CodeOf(status), message);
}

std::string ArrowVersion() {
  return arrow::GetBuildInfo().version_string;
}

}  // namespace fulcrum::ingest
