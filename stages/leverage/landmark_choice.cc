#include "stages/leverage/landmark_choice.h"

#include <algorithm>
#include <cmath>

#include "stages/core/rows.h"

namespace fulcrum::leverage {
namespace {

constexpr std::size_t kFewestLandmarks = 2000;
constexpr std::size_t kMostLandmarks = 4000;
// Multiplications of the first pass, n_s^2 a row, that are worth spending on a class.
constexpr double kGramWork = 2e12;
// Of the landmarks that a class should have; below it they are drawn anew.
constexpr double kLeastShareOfClass = 0.8;

}  // namespace

std::size_t DefaultLandmarks(std::size_t rows) {
  const auto affordable =
      static_cast<std::size_t>(std::sqrt(kGramWork / static_cast<double>(std::max<std::size_t>(rows, 1))));
  return std::min(rows, std::clamp(affordable, kFewestLandmarks, kMostLandmarks));
}

std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims) {
  // The factor, the sum, and the projected sum with its transpose's pages; then a block of tiles, and the features.
  return 3 * sizeof(double) * landmarks * landmarks + sizeof(float) * landmarks * (4096 + dims) +
         (std::size_t{16} << 20);
}

bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted) {
  // Landmarks from all over a class reach nearly to its last row. Where half of the rows lie behind them, the class has
  // grown to twice what they were drawn from.
  const auto behind = std::ranges::upper_bound(rows, landmarks.back());
  if (static_cast<std::size_t>(behind - rows.begin()) < rows.size() / 2) return true;
  const std::size_t of_class = landmarks.size() - RowsOnlyIn(landmarks, rows).size();
  return static_cast<double>(of_class) < kLeastShareOfClass * static_cast<double>(wanted);
}

}  // namespace fulcrum::leverage
