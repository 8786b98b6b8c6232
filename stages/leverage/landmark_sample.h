// Landmarks and samples of a class, and how landmark scores compare with exact ones on a sample.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/kernel_subspace.h"

namespace fulcrum::leverage {

/// `count` of the rows, uniform and without repeats, ascending; all of them where they are fewer. The same seed and
/// stream give the same ones.
RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// Takes the sample for a class of its own, scores it exactly and within the landmarks' span (refined, where `refine`
/// says so), and lets both pick their best twentieth: the exact leverage that the span's picks collect, over what the
/// exact ones do.
absl::StatusOr<double> CollectedShare(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                      std::span<const RowIndex> landmarks, const KernelSubspace& span,
                                      std::span<const RowIndex> sample, double tau, bool refine);

}  // namespace fulcrum::leverage
