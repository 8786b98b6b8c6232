// The program `fulcrum`.

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "pipeline/commands/command_line.h"
#include "stages/linalg/blas.h"

namespace {

void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Before all other static initialisation, whose instructions an old processor may not know.
[[gnu::constructor(101)]] void RefuseTooOldProcessor() {
  const char* missing = fulcrum::pipeline::MissingInstructionSet();
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
