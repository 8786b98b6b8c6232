// The program `fulcrum`.

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "pipeline/commands/command_line.h"
#include "stages/linalg/blas.h"

namespace {

// This file is compiled for the oldest processors, unlike the rest of the program, and free of the standard library's
// templates: it must run where the rest would die of an illegal instruction.

/// The name of an instruction set that the program was built for and the processor lacks; null if it has all.
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

void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Before all other static initialisation, whose instructions an old processor may not know.
[[gnu::constructor(101)]] void RefuseTooOldProcessor() {
  const char* missing = MissingInstructionSet();
  if (missing == nullptr) return;
  Say("fulcrum: this processor lacks ");
  Say(missing);
  Say(", which this build needs; build with -DFULCRUM_MARCH=x86-64 for older processors\n");
  _exit(fulcrum::pipeline::kExitInternal);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = fulcrum::pipeline::RunCommandLine(argc, argv);
  if (fulcrum::linalg::AbandonedCalls() == 0) return code;
  // The libraries that they are in must not be torn down under them.
  std::fflush(nullptr);
  _exit(code);
}
