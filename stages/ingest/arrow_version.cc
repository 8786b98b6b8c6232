#include "stages/ingest/arrow_version.h"

#include "arrow/config.h"

namespace fulcrum::ingest {

std::string ArrowVersion() {
  return arrow::GetBuildInfo().version_string;
}

}  // namespace fulcrum::ingest
