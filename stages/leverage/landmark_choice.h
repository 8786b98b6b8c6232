// How many landmarks a class gets, what they cost, and when they are drawn anew.
//
// Nothing but sizes and the rows themselves decide it, so that a process that was started again decides as one that
// never ended. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "stages/core/rows.h"

namespace fulcrum::leverage {

/// As many as pay: the sum over a large class should not take much longer than scoring it, and that over a small class
/// may. 2,000 to 4,000, or the class where that is less.
std::size_t DefaultLandmarks(std::size_t rows);
/// What an engine with so many landmarks holds at most.
std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims);

/// Whether landmarks no longer stand for a class that should have `wanted` of them: it has grown to twice what they
/// were drawn from, or many have left it.
bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted);

}  // namespace fulcrum::leverage
