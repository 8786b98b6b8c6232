# The target fulcrum_blas: BLAS and LAPACK for stages/linalg.

set(FULCRUM_BLAS "MKL" CACHE STRING "BLAS, LAPACK and vector functions: MKL or OpenBLAS")
set_property(CACHE FULCRUM_BLAS PROPERTY STRINGS MKL OpenBLAS)
add_library(fulcrum_blas INTERFACE)

if(FULCRUM_BLAS STREQUAL "MKL")
  # Sequential MKL: oneTBB schedules the tiles. The TBB layer of MKL 2020 needs symbols that oneTBB no longer has.
  # Nothing is linked: stages/linalg/blas_library.h loads MKL on first use.
  find_path(FULCRUM_MKL_INCLUDE mkl.h HINTS ENV MKLROOT PATHS /opt/intel/oneapi/mkl/latest PATH_SUFFIXES include mkl
            REQUIRED)
  find_library(FULCRUM_MKL_LP64 mkl_intel_lp64 HINTS ENV MKLROOT PATHS /opt/intel/oneapi/mkl/latest PATH_SUFFIXES
               lib lib/intel64 REQUIRED)
  cmake_path(GET FULCRUM_MKL_LP64 PARENT_PATH mkl_directory)
  target_include_directories(fulcrum_blas SYSTEM INTERFACE "${FULCRUM_MKL_INCLUDE}")
  target_link_libraries(fulcrum_blas INTERFACE ${CMAKE_DL_LIBS})
  target_compile_definitions(fulcrum_blas INTERFACE "FULCRUM_MKL_DIRECTORY=\"${mkl_directory}\"")
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
