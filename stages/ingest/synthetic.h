// Artificial problems in any number of dimensions d: a table of their generators, each with what makes it difficult.
//
// Two of them are Breiman's (Bias, Variance, and Arcing Classifiers, 1996), each class with probability one half:
//
//   twonorm:  class  1 from N( (a, ..., a), I), class -1 from N(-(a, ..., a), I), a = 2 / sqrt(d)
//   ringnorm: class  1 from N(0, 4 I),          class -1 from N( (a, ..., a), I), a = 1 / sqrt(d)
//
// R's mlbench, which cites Breiman, has a = 1 / sqrt(d) for ringnorm; Delve's description and its 7,400 rows
// have 2 / sqrt(d) (the mean measured there is 0.454; 2 / sqrt(20) is 0.447), with the signs of the classes
// the other way round. `mean_factor` is the numerator of a, to reproduce Delve's.
//
// A row depends on the seed and its number alone, so rows can be made in any order. Everything here is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/random.h"

namespace fulcrum::ingest {

/// In the order of SyntheticProblems().
enum class SyntheticProblem {
  kTwonorm,
  kRingnorm,
  kManyClasses,
  kImbalance,
  kWords,
  kEmbeddings,
  kDuplicates,
  kOutliers,
  kLabelNoise,
  kRings,
  kMoons,
  kSpirals,
  kXor,
  kCategories,
  kScales,
  kCheckerboard,
  kDigits
};

struct SyntheticEntry {
  const char* name;
  const char* summary;
};

/// All problems, by the number of SyntheticProblem.
std::span<const SyntheticEntry> SyntheticProblems();

absl::StatusOr<SyntheticProblem> ParseSyntheticProblem(absl::string_view name);

/// The numerator of a in Breiman's definition: 2 for twonorm, 1 for ringnorm.
double BreimanMeanFactor(SyntheticProblem problem);

struct SyntheticSpec {
  SyntheticProblem problem = SyntheticProblem::kTwonorm;
  double mean_factor = 2;
  std::uint64_t seed = 1;
};

/// Fills the features of one row (the size of `features` is d) and returns its class: 1 or -1 with two classes,
/// otherwise a number from 0.
int GenerateRow(const SyntheticSpec& spec, std::uint64_t row, std::span<double> features);

// Artificial images of digits: strokes that are turned, stretched, moved and blurred at random, for examples that
// people can look at.
//
// Pure functions; thread-safe.

/// Pixels of a square image that `count` numbers hold, per side: the largest whose square is not above it.
std::size_t ImageSide(std::size_t count);

/// Draws a random digit into the first ImageSide^2 numbers, row by row, 0 for paper and 1 for ink; the others become 0.
/// Returns the digit.
int DrawDigit(Random& random, std::span<double> pixels);

/// The image as PNG, 8 bits of grey per pixel, in a data URL: what a payload column has.
std::string ImageUrl(std::span<const double> pixels);

}  // namespace fulcrum::ingest
