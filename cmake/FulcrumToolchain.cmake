# Compiler settings: language standard, warnings, sanitizers, and tools that speed up the build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
# Lets the program find an Arrow built from source without LD_LIBRARY_PATH.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

set(FULCRUM_SANITIZER "" CACHE STRING "Sanitizer to build with: address (with undefined behaviour), thread, or none")
set_property(CACHE FULCRUM_SANITIZER PROPERTY STRINGS "" address thread)
option(FULCRUM_OPTIMIZE_DEBUG "Optimise lightly although assertions stay on" OFF)

if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(default_march "x86-64-v3")
endif()
set(FULCRUM_MARCH "${default_march}" CACHE STRING
    "Oldest processor to run on, as -march takes it; the program checks at start and says so on an older one")

# Frame pointers and line tables cost less than 1% each and make profiles readable.
add_compile_options(-fno-omit-frame-pointer -g1)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
if(FULCRUM_MARCH)
  add_compile_options(-march=${FULCRUM_MARCH})
  add_compile_definitions(FULCRUM_MARCH="${FULCRUM_MARCH}")
endif()
if(FULCRUM_OPTIMIZE_DEBUG)
  add_compile_options(-O1)
endif()
if(FULCRUM_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  if(FULCRUM_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
elseif(FULCRUM_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(FULCRUM_SANITIZER)
  message(FATAL_ERROR "FULCRUM_SANITIZER is '${FULCRUM_SANITIZER}'; it must be address, thread or empty.")
endif()

find_program(FULCRUM_CCACHE ccache)
if(FULCRUM_CCACHE)
  # Paths below the checkout are hashed as relative paths, so that other clones and presets share the cache.
  # The ccache manual requires this sloppiness setting for precompiled headers.
  set(launcher "${CMAKE_COMMAND}" -E env CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
      CCACHE_SLOPPINESS=pch_defines,time_macros "${FULCRUM_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
find_program(FULCRUM_MOLD mold)
find_program(FULCRUM_LLD ld.lld)
if(FULCRUM_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(FULCRUM_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Warnings for all targets except code generated from .proto files.
add_library(fulcrum_warnings INTERFACE)
# A local variable of a test may have the name of a constant of another test that is compiled together with it.
target_compile_options(fulcrum_warnings INTERFACE
  -Wall -Wextra -Wpedantic $<$<NOT:$<BOOL:$<TARGET_PROPERTY:FULCRUM_TEST_CODE>>>:-Wshadow> -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-align -Werror)
