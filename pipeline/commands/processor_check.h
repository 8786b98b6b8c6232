// Whether this processor can run what was compiled for it.
//
// Compiled for the oldest processors, unlike the rest of the program, and free of the standard library's
// templates: it must run where the rest would die of an illegal instruction.
#pragma once

namespace fulcrum::pipeline {

/// The name of an instruction set that the program was built for and the processor lacks; null where it has all.
const char* MissingInstructionSet();

}  // namespace fulcrum::pipeline
