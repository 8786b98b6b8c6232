// Checks that options of several commands share.
#pragma once

#include <cstdint>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::pipeline {

/// A number without sign or fraction that fits 64 bits. CLI11 alone would turn -3 into a very large one.
CLI::Validator WholeNumber();

/// Bytes from "512MiB", "2GiB", "2G", "1048576"; powers of 1024. InvalidArgument for other text, and for none at all.
absl::StatusOr<std::int64_t> ParseByteSize(absl::string_view text);

}  // namespace fulcrum::pipeline
