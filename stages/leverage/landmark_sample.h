// Landmarks and samples of a class, and how landmark scores compare with exact ones on a sample.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/kernel_subspace.h"

namespace fulcrum::leverage {

/// The stream of the seed that landmarks are drawn from.
inline constexpr std::uint64_t kLandmarkStream = 11;
/// With fewer rows per landmark than this, landmarks are not corrected: if all rows are landmarks that is exact.
inline constexpr std::size_t kLeastRowsForOne = 2;

/// `count` of the rows, uniform and without repeats, ascending; all of them if they are fewer. The same seed and
/// stream give the same ones.
RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// The positions of these rows in a class of that size, ascending: they depend on nothing else.
std::vector<std::uint64_t> SamplePositions(std::size_t size, std::size_t count, std::uint64_t seed,
                                           std::uint64_t stream);

/// The part of a class of `class_rows` rows that is summed, if it has more than `most`: one of so many, chosen by a
/// hash of the row number alone, so that a row that stays in its class stays in the sum. `rows` are those of a process,
/// which count from `first_row` of the pool.
RowList SummedPart(std::span<const RowIndex> rows, std::size_t class_rows, std::size_t most,
                   std::uint64_t first_row = 0);

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
