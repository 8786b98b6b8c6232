// Checks that options of several commands share.
#pragma once

#include "CLI/App.hpp"

namespace fulcrum::pipeline {

/// A number without sign or fraction that fits 64 bits. CLI11 alone would turn -3 into a very large one.
CLI::Validator WholeNumber();

}  // namespace fulcrum::pipeline
