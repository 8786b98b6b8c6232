# The linear algebra behind stages/linalg, as the target fulcrum_blas.

set(FULCRUM_BLAS "MKL" CACHE STRING "BLAS, LAPACK and vector functions: MKL or OpenBLAS")
set_property(CACHE FULCRUM_BLAS PROPERTY STRINGS MKL OpenBLAS)
add_library(fulcrum_blas INTERFACE)

if(FULCRUM_BLAS STREQUAL "MKL")
  # Sequential inside, oneTBB outside: the tiles are ours to schedule. MKL 2020's own TBB layer
  # needs symbols that oneTBB no longer has; a newer oneMKL brings a configuration of its own.
  find_package(MKL CONFIG QUIET)
  if(MKL_FOUND)
    target_link_libraries(fulcrum_blas INTERFACE MKL::MKL)
  else()
    find_path(FULCRUM_MKL_INCLUDE mkl.h PATH_SUFFIXES mkl REQUIRED)
    find_library(FULCRUM_MKL_LP64 mkl_intel_lp64 REQUIRED)
    find_library(FULCRUM_MKL_SEQUENTIAL mkl_sequential REQUIRED)
    find_library(FULCRUM_MKL_CORE mkl_core REQUIRED)
    target_include_directories(fulcrum_blas SYSTEM INTERFACE "${FULCRUM_MKL_INCLUDE}")
    target_link_libraries(fulcrum_blas INTERFACE
      "${FULCRUM_MKL_LP64}" "${FULCRUM_MKL_SEQUENTIAL}" "${FULCRUM_MKL_CORE}" Threads::Threads m dl)
    # The interface layer finds the other two at run time only; a linker that drops what it sees no call to would
    # leave the program without them.
    target_link_options(fulcrum_blas INTERFACE "LINKER:--no-as-needed")
  endif()
  target_compile_definitions(fulcrum_blas INTERFACE FULCRUM_BLAS_MKL=1)
elseif(FULCRUM_BLAS STREQUAL "OpenBLAS")
  pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
  find_path(FULCRUM_LAPACKE_INCLUDE lapacke.h REQUIRED)
  find_library(FULCRUM_LAPACKE lapacke REQUIRED)
  target_include_directories(fulcrum_blas SYSTEM INTERFACE "${FULCRUM_LAPACKE_INCLUDE}")
  target_link_libraries(fulcrum_blas INTERFACE "${FULCRUM_LAPACKE}" PkgConfig::openblas)
  target_compile_definitions(fulcrum_blas INTERFACE FULCRUM_BLAS_MKL=0)
else()
  message(FATAL_ERROR "FULCRUM_BLAS is '${FULCRUM_BLAS}'; it must be MKL or OpenBLAS.")
endif()
