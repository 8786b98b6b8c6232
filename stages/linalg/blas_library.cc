#include "stages/linalg/blas_library.h"

#include <string>

#include "stages/linalg/blas.h"

#if FULCRUM_BLAS_MKL
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace fulcrum::linalg {
namespace {

[[noreturn]] void EndWithoutMkl(const char* error) {
  std::fprintf(stderr,
               "fulcrum: cannot load Intel MKL: %s\n"
               "Install it (on Debian: libmkl-core, libmkl-sequential, libmkl-intel-lp64), or build with "
               "FULCRUM_BLAS=OpenBLAS.\n",
               error != nullptr ? error : "unknown error");
  std::_Exit(70);
}

/// The interface layer is last: it finds the other two among the loaded libraries.
void* LoadMkl() {
  void* handle = nullptr;
  for (const char* library : {"libmkl_core.so", "libmkl_sequential.so", "libmkl_intel_lp64.so"}) {
    handle = dlopen(library, RTLD_LAZY | RTLD_GLOBAL);
    if (handle != nullptr) continue;
    // A library that is not in the linker's path is expected where it was when the program was built.
    char path[4096];
    std::snprintf(path, sizeof(path), "%s/%s", FULCRUM_MKL_DIRECTORY, library);
    handle = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    if (handle == nullptr) EndWithoutMkl(dlerror());
  }
  return handle;
}

}  // namespace

void* FindMklFunction(const char* name) {
  static void* const mkl = LoadMkl();
  void* const found = dlsym(mkl, name);
  if (found == nullptr) EndWithoutMkl(dlerror());
  return found;
}

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
