# The three kinds of targets: one library per folder, one test per folder, one program per benchmark.
# Ninja targets: fulcrum (only the program), tests (run by ./dev test), benchmarks (run by ./dev bench).

add_custom_target(tests)
add_custom_target(benchmarks)

# fulcrum_compile_together(NAME COUNT): compiles COUNT sources of a target at a time. Headers, and the templates that they
# instantiate, are most of the time of a compilation. The names in the anonymous namespaces of the target must then differ
# from each other, not only those of neighbours: a new source may move the limits. With the option FULCRUM_LINT, and for
# clang-tidy, each source has a command of its own.
function(fulcrum_compile_together name count)
  if(NOT FULCRUM_LINT)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    # The warning takes the anonymous namespaces of the sources for those of a header.
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# fulcrum_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...] [TOGETHER])
# Headers are included from the root: #include "stages/core/matrix.h".
# TOGETHER compiles four sources at a time.
function(fulcrum_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TOGETHER" "" "SOURCES;PUBLIC;PRIVATE")
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} fulcrum_warnings)
  if(ARG_TOGETHER)
    fulcrum_compile_together(${name} 4)
  endif()
endfunction()

# Tests share precompiled headers, and eight of their sources are compiled at a time. Test code is compiled with -O1: the
# code under test is in the libraries, and test code is more than half of all compiled code.
function(fulcrum_compile_as_test name)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Lets ccache use precompiled headers.
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
  fulcrum_compile_together(${name} 8)
  set_target_properties(${name} PROPERTIES FULCRUM_TEST_CODE ON)
  if(NOT name STREQUAL fulcrum_test_support)
    target_precompile_headers(${name} REUSE_FROM fulcrum_test_support)
  endif()
endfunction()

# fulcrum_test(NAME SOURCES ... LINK ... [APART ...] [LABELS ...] [ENVIRONMENT ...])
# APART names sources that are compiled alone, if their names are also used by others.
# Every TEST is a separate ctest, discovered when the tests run.
function(fulcrum_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "SOURCES;APART;LINK;LABELS;ENVIRONMENT")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(tests ${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fulcrum_test_support GTest::gmock GTest::gtest_main fulcrum_warnings)
  fulcrum_compile_as_test(${name})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(FULCRUM_SANITIZER STREQUAL "thread")
    # Suppressions match libraries in the stacks of both accesses; a long history keeps both stacks available.
    list(APPEND ARG_ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/thread_sanitizer.supp:halt_on_error=1:history_size=7")
  endif()
  if(ARG_ENVIRONMENT)
    list(APPEND properties ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
endfunction()

# fulcrum_benchmark(NAME SOURCES ... LINK ...): built as bin/bench_NAME, run by `./dev bench`.
function(fulcrum_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LINK")
  add_executable(bench_${name} ${ARG_SOURCES})
  add_dependencies(benchmarks bench_${name})
  target_link_libraries(bench_${name} PRIVATE ${ARG_LINK} fulcrum_test_support benchmark::benchmark fulcrum_warnings)
endfunction()
