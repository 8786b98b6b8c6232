// What every stage calls the examples of a pool and their classes.
#pragma once

#include <cstdint>
#include <vector>

namespace fulcrum {

/// Position of an example in its pool. User-facing ids are mapped to it at the edges of the program.
using RowIndex = std::uint32_t;

/// Index into the campaign's sorted list of class names.
using ClassIndex = std::int32_t;

/// The class of an example nobody has labeled.
inline constexpr ClassIndex kUnlabeled = -1;

using RowList = std::vector<RowIndex>;

}  // namespace fulcrum
