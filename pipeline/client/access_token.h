// The bearer token that a client shows to the server.
//
// It comes from a file or the environment, never from the command line, where every user of the machine could read it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

/// The token in the file, or where no file is named that in FULCRUM_TOKEN, or an empty one. Spaces and line ends around
/// it are removed. No message ever contains it.
absl::StatusOr<std::string> LoadAccessToken(const std::string& token_file);

}  // namespace fulcrum::pipeline
