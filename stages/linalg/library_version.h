// Which linear algebra library answers at run time.
#pragma once

#include <string>

namespace fulcrum::linalg {

/// "MKL" or "OpenBLAS".
std::string LibraryName();
/// Version as the loaded library reports it, not as the headers said when this was compiled.
std::string LibraryVersion();

}  // namespace fulcrum::linalg
