// Which Arrow answers at run time.
#pragma once

#include <string>

namespace fulcrum::ingest {

/// Version as the loaded library reports it, not as the headers said when this was compiled.
std::string ArrowVersion();

}  // namespace fulcrum::ingest
