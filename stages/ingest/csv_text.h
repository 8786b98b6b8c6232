// Lines of CSV as this project writes them: commas, "\n", quotes only where needed.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace fulcrum::ingest {

/// Appends a value, in quotes where it holds a comma, a quote or a line end.
void AppendCsvField(absl::string_view value, std::string& line);

}  // namespace fulcrum::ingest
