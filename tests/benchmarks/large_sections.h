// The sections of bench_large, one per requirement of engines without a kernel matrix. `bench_large NAME...` runs the
// given ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stages/core/matrix.h"

namespace fulcrum::benchmarks {

/// Rows of unit length close to a subspace of `latent` dimensions, like embeddings: the rank of their kernel is in the
/// tens, not in the thousands.
/// `first` continues a set of rows that is generated in parts.
Matrix<double> EmbeddingLikeRows(std::size_t rows, std::size_t dims, std::size_t latent, std::uint64_t seed,
                                 std::size_t first = 0);

/// Returns the multiplications and additions per second of all cores together, each with its own products.
double DoubleGemmRate();
double FloatGemmRate();

/// Returns the peak memory of this process in MiB.
double PeakMebibytes();
/// Resets the peak memory.
void ForgetPeak();

void MeasureTiledPass();
void MeasureTiledSolve();
void CompareLandmarks();
void CompareLandmarksLarge();
void MeasureSelection();
void MeasurePrediction();
void MeasureHundredThousandRows();
void MeasureMillionRows();
void MeasureTenMillionRows();

}  // namespace fulcrum::benchmarks
