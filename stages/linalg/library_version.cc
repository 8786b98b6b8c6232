#include "stages/linalg/library_version.h"

#include "stages/linalg/blas_library.h"

#if FULCRUM_BLAS_MKL

namespace fulcrum::linalg {

std::string LibraryName() {
  return "MKL";
}

std::string LibraryVersion() {
  MKLVersion version;
  mkl_get_version(&version);
  return std::to_string(version.MajorVersion) + "." + std::to_string(version.MinorVersion) + "." +
         std::to_string(version.UpdateVersion) + " (" + version.Processor + ")";
}

}  // namespace fulcrum::linalg

#else

extern "C" char* openblas_get_config(void);

namespace fulcrum::linalg {

std::string LibraryName() {
  return "OpenBLAS";
}

std::string LibraryVersion() {
  // "OpenBLAS 0.3.21 ...": what follows the name.
  const std::string configuration = openblas_get_config();
  const auto space = configuration.find(' ');
  return space == std::string::npos ? configuration : configuration.substr(space + 1);
}

}  // namespace fulcrum::linalg

#endif
