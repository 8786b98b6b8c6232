#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "stages/linalg/blas.h"

namespace fulcrum::linalg {
namespace {

/// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, so that |r| <= ln(2) / 2; ln 2 is taken off in two parts of
/// which the first has zeros at its end, so that n times it is exact. Adding kShift leaves n in the lowest bits.
struct DoubleExp {
  using Bits = std::int64_t;
  static constexpr double kSmallest = -708, kLargest = 709;
  static constexpr double kShift = 0x1.8p52;
  static constexpr double kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kExponentBias = 1023;

  // Taylor's series: its next term is below a unit in the last place.
  static double OfRemainder(double r) {
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return p * r * r + r + 1;
  }
};

struct FloatExp {
  using Bits = std::int32_t;
  static constexpr float kSmallest = -87, kLargest = 88;
  static constexpr float kShift = 0x1.8p23F;
  static constexpr float kLog2High = 0.693359375F, kLog2Low = -2.12194440e-4F;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kExponentBias = 127;

  // The minimax polynomial of Cephes' expf (Moshier).
  static float OfRemainder(float r) {
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return p * r * r + r + 1;
  }
};

/// Of an x that is at most kLargest.
template <typename Method, typename T>
T Exp(T x) {
  constexpr T kInverseLog2 = static_cast<T>(1.4426950408889634);
  x = std::max(x, Method::kSmallest);
  const T shifted = x * kInverseLog2 + Method::kShift;
  const T n = shifted - Method::kShift;
  const T r = x - n * Method::kLog2High - n * Method::kLog2Low;
  using Bits = typename Method::Bits;
  const Bits power = (std::bit_cast<Bits>(shifted) + Method::kExponentBias) << Method::kMantissaBits;
  return Method::OfRemainder(r) * std::bit_cast<T>(power);
}

template <typename Method, typename T>
void ExpOfDistancesBy(T norm, std::span<const T> norms, T inverse, std::span<T> dots) {
  assert(norms.size() == dots.size());
  T* const values = dots.data();
  const T* const others = norms.data();
  for (std::size_t j = 0; j < dots.size(); ++j) {
    values[j] = Exp<Method, T>(std::min((2 * values[j] - norm - others[j]) * inverse, T{0}));
  }
}

template <typename Method, typename T>
void ExpInPlaceBy(std::span<T> values) {
  for (T& value : values) value = Exp<Method, T>(std::min(value, Method::kLargest));
}

// The program is built for AVX2; if the processor has vectors of twice the length, as MKL's products use them, the
// same loops are there for those. Every step of theirs is the same, and so is the result.
#if defined(__GNUC__) && !defined(__clang__)
#define FULCRUM_WIDE_VECTORS [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::flatten]]

bool HasWideVectors() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return has;
}
#else
#define FULCRUM_WIDE_VECTORS

bool HasWideVectors() {
  return false;
}
#endif

FULCRUM_WIDE_VECTORS void ExpOfDistancesWide(double norm, std::span<const double> norms, double inverse,
                                             std::span<double> dots) {
  ExpOfDistancesBy<DoubleExp>(norm, norms, inverse, dots);
}
FULCRUM_WIDE_VECTORS void ExpOfDistancesWide(float norm, std::span<const float> norms, float inverse,
                                             std::span<float> dots) {
  ExpOfDistancesBy<FloatExp>(norm, norms, inverse, dots);
}

}  // namespace

void ExpInPlace(std::span<double> values) {
  ExpInPlaceBy<DoubleExp>(values);
}
void ExpInPlace(std::span<float> values) {
  ExpInPlaceBy<FloatExp>(values);
}

void ExpOfDistances(double norm, std::span<const double> norms, double inverse, std::span<double> dots) {
  if (HasWideVectors()) return ExpOfDistancesWide(norm, norms, inverse, dots);
  ExpOfDistancesBy<DoubleExp>(norm, norms, inverse, dots);
}
void ExpOfDistances(float norm, std::span<const float> norms, float inverse, std::span<float> dots) {
  if (HasWideVectors()) return ExpOfDistancesWide(norm, norms, inverse, dots);
  ExpOfDistancesBy<FloatExp>(norm, norms, inverse, dots);
}

}  // namespace fulcrum::linalg
