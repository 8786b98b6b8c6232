// Sums that do not depend on the order of their terms, nor on how many processes add them up.
//
// Floating-point addition rounds, so the order matters. If every term is first rounded to a multiple of one quantum,
// and the quantum is at least 2^-52 of a bound on all partial sums, then additions are exact in any order. The quantum
// is so far below the bound that rounding the terms costs less than float32 kernel values are off by. Plain values,
// thread-safe.
#pragma once

#include <cmath>

namespace fulcrum {

class ExactTerms {
 public:
  /// `bound` is at least the sum of the magnitudes of all terms. Sums are as usual if it is not positive and finite.
  explicit ExactTerms(double bound) {
    if (!(bound > 0) || !std::isfinite(bound)) return;
    int exponent = 0;
    std::frexp(bound, &exponent);
    // Adding 1.5 times 2^52 quanta leaves no bits below the quantum; subtracting it again is exact.
    shift_ = std::ldexp(1.5, exponent + 1);
    if (!std::isfinite(shift_)) shift_ = 0;
  }

  /// The multiple of the quantum next to `value`.
  double operator()(double value) const { return (value + shift_) - shift_; }

 private:
  double shift_ = 0;
};

}  // namespace fulcrum
