// Scores of a class whose kernel has a very low rank: identical rows, one binary feature, a linear kernel of few
// features.
//
// A few steps of pivoted Cholesky, one column of the kernel each, find out whether K = F F' with F of few columns. If
// so the leading eigenvectors follow from the small matrix F'F, without the m^2 kernel values that every other exact
// method computes; if not, the attempt costs a few columns. Pure function, thread-safe; loops run in parallel inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {

/// Smaller classes are cheap anyway.
inline constexpr std::size_t kFewestRowsOfLowRank = 2000;
/// A kernel of a higher rank is not a low one.
inline constexpr std::size_t kMostColumnsOfLowRank = 16;

/// Positions of some rows of a class with so many; a kernel has no lower rank than that of some of its rows.
std::vector<std::uint64_t> LowRankSample(std::size_t rows);

/// Whether the kernel of a sample has a low rank. Costs a few thousand kernel values, and spares nearly every class the
/// columns over all of its rows.
bool SampleHasLowRank(const kernel::KernelFunction& kernel, const kernel::Features& features,
                      std::span<const RowIndex> sample);

/// Nothing if the class is small, or its kernel is not of a low rank up to rounding errors.
absl::StatusOr<std::optional<ClassScores>> ScoreLowRank(const kernel::KernelFunction& kernel,
                                                        const kernel::Features& features,
                                                        std::span<const RowIndex> rows, double tau);

}  // namespace fulcrum::leverage
