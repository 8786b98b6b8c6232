// The exponential function of many numbers, which takes as much of the time of a kernel tile as its products.
//
// Written so that the compiler vectorises it for any BLAS: MKL's own takes twice as long on processors that are not
// Intel's, and OpenBLAS has none. Thread-safe on disjoint values.
#pragma once

#include <span>

namespace fulcrum::linalg {

/// values[i] = exp(values[i]), right to two units in the last place. If the result would not be a normal number it is
/// the smallest or largest one (about 1e-38 and 1e38 for float, 1e-308 and 1e308 for double).
void ExpInPlace(std::span<double> values);
void ExpInPlace(std::span<float> values);

/// dots[j] = exp(min(0, (2 dots[j] - norm - norms[j]) * inverse)): inner products of one point with others become a row
/// of an rbf kernel in one go. A distance that is negative by rounding counts as zero.
void ExpOfDistances(double norm, std::span<const double> norms, double inverse, std::span<double> dots);
void ExpOfDistances(float norm, std::span<const float> norms, float inverse, std::span<float> dots);

}  // namespace fulcrum::linalg
