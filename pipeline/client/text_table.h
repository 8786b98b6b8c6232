// Columns of text, aligned, for people. Stateless and thread-safe.
#pragma once

#include <string>
#include <vector>

namespace fulcrum::pipeline {

/// Rows of cells below each other; the first row is the heading. Columns whose cells below it are all numbers go to the
/// right. Widths are counted in characters, not bytes.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace fulcrum::pipeline
