# The three kinds of target: one library per folder, one test per folder, one program per benchmark.
# `ninja fulcrum` builds the program alone, `ninja tests` and `ninja benchmarks` what ./dev test and ./dev bench run.

add_custom_target(tests)
add_custom_target(benchmarks)

# fulcrum_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...])
# Headers are included from the root: #include "stages/core/matrix.h".
function(fulcrum_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;PUBLIC;PRIVATE")
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} fulcrum_warnings)
endfunction()

# What tests include in nearly every file is compiled once. Their own code is optimised lightly: what they measure and
# compare is in the libraries, and they are more than half of all that is compiled.
function(fulcrum_compile_as_test name)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess) # so that ccache sees what was precompiled
  endif()
  if(NOT name STREQUAL fulcrum_test_support)
    target_precompile_headers(${name} REUSE_FROM fulcrum_test_support)
  endif()
endfunction()

# fulcrum_test(NAME SOURCES ... LINK ... [LABELS ...] [ENVIRONMENT ...])
# Every TEST becomes a ctest of its own, found when the tests run.
function(fulcrum_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "SOURCES;LINK;LABELS;ENVIRONMENT")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(tests ${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fulcrum_test_support GTest::gmock GTest::gtest_main fulcrum_warnings)
  fulcrum_compile_as_test(${name})
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(FULCRUM_SANITIZER STREQUAL "thread")
    # With a long history it still knows, of either side, through which library it came; suppressions go by that.
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
