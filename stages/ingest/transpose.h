// Columns of float32 into rows, the way a pool keeps them. Functions of their arguments; thread-safe.
#pragma once

#include <array>
#include <cstddef>

namespace fulcrum::ingest {

/// Columns that are turned into rows together: as many as fill a vector register.
inline constexpr std::size_t kColumnsTogether = 8;

/// Writes `count` rows, `stride` apart, from the first values of these columns. False where one is not finite.
bool TransposeFinite(const std::array<const float*, kColumnsTogether>& columns, std::size_t count, float* rows,
                     std::size_t stride);

}  // namespace fulcrum::ingest
