// Landmarks and samples of a class, and how landmark scores compare with exact ones on a sample.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/kernel_subspace.h"

namespace fulcrum::leverage {

/// `count` of the rows, uniform and without repeats, ascending; all of them if they are fewer. The same seed and
/// stream give the same ones.
RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// Treats the sample as a class, scores it exactly and within the landmarks' span (refined, if `refine`
/// says so), and lets both pick their best twentieth: the exact leverage that the span's picks collect, over what the
/// exact ones do.
absl::StatusOr<double> CollectedShare(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                      std::span<const RowIndex> landmarks, const KernelSubspace& span,
                                      std::span<const RowIndex> sample, double tau, bool refine);

// How many landmarks a class gets, what they cost, and when they are drawn anew.
//
// It depends only on sizes and the rows themselves, so that a restarted process decides as one that
// never ended. Pure functions, thread-safe.

/// As many as pay: the sum over a large class should not take much longer than scoring it, and that over a small class
/// may. 2,000 to 4,000, or all rows of a smaller class.
std::size_t DefaultLandmarks(std::size_t rows);
/// What an engine with so many landmarks holds at most.
std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims);

/// Whether landmarks no longer stand for a class that should have `wanted` of them: it has grown to twice what they
/// were drawn from, or many have left it.
bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted);

}  // namespace fulcrum::leverage
