#include "pipeline/campaign/pool_sources.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

bool IsInside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolvePoolSources(const std::vector<std::string>& sources,
                                                            const std::string& root) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(root, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the folder of pools '", root, "' cannot be read: ", error.message()));
  }
  std::vector<std::string> resolved;
  for (const std::string& source : sources) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder / source, error);
    if (error || !IsInside(path, folder)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the source '", source, "' is not inside '", folder.string(),
                       "', the folder that this server reads pools from (serve --pools)"));
    }
    resolved.push_back(path.string());
  }
  return resolved;
}

}  // namespace fulcrum::pipeline
