// Where a campaign's pool is read from: files inside the folder that the daemon was given, and no others.
//
// Stateless and thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

/// The sources as paths, relative ones below `root`. InvalidArgument for one that does not lie inside it, whatever
/// links and dots it is made of.
absl::StatusOr<std::vector<std::string>> ResolvePoolSources(const std::vector<std::string>& sources,
                                                            const std::string& root);

}  // namespace fulcrum::pipeline
