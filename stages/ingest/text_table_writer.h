// Tables as text: CSV and LIBSVM. Not thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "arrow/io/type_fwd.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/table_writer.h"

namespace fulcrum::ingest {

/// A header and a line a row. Numbers are as short as they can be to read back the same; null is empty. A fixed-size
/// list becomes as many columns: "embedding[0]", ...
absl::StatusOr<std::unique_ptr<TableWriter>> MakeCsvWriter(const arrow::Schema& schema,
                                                           arrow::io::OutputStream& stream);

/// "label index:value ...", zeros left out, 0 for a label that is not there. Ids have no place in the format.
absl::StatusOr<std::unique_ptr<TableWriter>> MakeLibsvmWriter(const arrow::Schema& schema,
                                                              arrow::io::OutputStream& stream);

}  // namespace fulcrum::ingest
