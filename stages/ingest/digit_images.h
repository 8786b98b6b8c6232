// Artificial images of digits: strokes that are turned, stretched, moved and blurred at random, for examples that
// people can look at.
//
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "stages/core/random.h"

namespace fulcrum::ingest {

/// Pixels of a square image that `count` numbers hold, per side: the largest whose square is not above it.
std::size_t ImageSide(std::size_t count);

/// Draws a random digit into the first ImageSide^2 numbers, row by row, 0 for paper and 1 for ink; the others become 0.
/// Returns the digit.
int DrawDigit(Random& random, std::span<double> pixels);

/// The image as PNG, 8 bits of grey per pixel, in a data URL: what a payload column has.
std::string ImageUrl(std::span<const double> pixels);

}  // namespace fulcrum::ingest
