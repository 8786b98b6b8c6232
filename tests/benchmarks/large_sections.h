// The parts of bench_large, each a bar of engines without a kernel matrix. `bench_large NAME...` runs the named ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stages/core/matrix.h"

namespace fulcrum::benchmarks {

/// Rows of unit length that lie near a subspace of `latent` dimensions, as embeddings do: their kernel has a rank of
/// tens, not of thousands.
/// `first` continues a set of rows that is made in parts.
Matrix<double> EmbeddingLikeRows(std::size_t rows, std::size_t dims, std::size_t latent, std::uint64_t seed,
                                 std::size_t first = 0);

/// Multiplications and additions a second of all cores together, each on products of its own.
double DoubleGemmRate();
double FloatGemmRate();

/// The most memory this process ever had, in MiB.
double PeakMebibytes();
/// Counts it from now on only.
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
