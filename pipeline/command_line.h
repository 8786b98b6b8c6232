// From the arguments of the program to its exit code.
#pragma once

namespace fulcrum::pipeline {

/// Parses the arguments, runs the command, prints its error if it has one. Never throws.
int RunCommandLine(int argc, char** argv);

}  // namespace fulcrum::pipeline
