#include <cstring>

#include "pipeline/commands/command_line.h"

namespace fulcrum::pipeline {

const char* MissingInstructionSet() {
#if defined(__x86_64__) && defined(FULCRUM_MARCH)
  if (std::strcmp(FULCRUM_MARCH, "x86-64-v3") != 0) return nullptr;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
  if (!__builtin_cpu_supports("fma")) return "FMA";
  if (!__builtin_cpu_supports("bmi")) return "BMI1";
  if (!__builtin_cpu_supports("bmi2")) return "BMI2";
#endif
  return nullptr;
}

}  // namespace fulcrum::pipeline
