#include "stages/ingest/csv_text.h"

namespace fulcrum::ingest {

void AppendCsvField(absl::string_view value, std::string& line) {
  if (value.find_first_of(",\"\r\n") == absl::string_view::npos) {
    line.append(value.data(), value.size());
    return;
  }
  line.push_back('"');
  for (char character : value) {
    if (character == '"') line.push_back('"');
    line.push_back(character);
  }
  line.push_back('"');
}

}  // namespace fulcrum::ingest
