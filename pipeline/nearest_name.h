// "Did you mean": the known name that a mistyped one is nearest to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fulcrum::pipeline {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

/// The nearest of `names`, or an empty string where none is near enough to be meant.
std::string NearestName(std::string_view word, const std::vector<std::string>& names);

}  // namespace fulcrum::pipeline
