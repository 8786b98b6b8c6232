#include "stages/select/version_space.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stages/core/random.h"
#include "stages/core/stop_scope.h"
#include "stages/linalg/blas.h"

namespace fulcrum::select {
namespace {

constexpr int kPerceptronSweeps = 1000;
// Moves, as multiples of the number of dimensions, before the first sample and between two.
constexpr std::size_t kSweepsBefore = 50;
constexpr std::size_t kSweepsBetween = 10;

std::size_t CountViolated(ConstMatrixView constraints, std::span<const double> vector) {
  std::size_t violated = 0;
  for (std::size_t i = 0; i < constraints.rows(); ++i) {
    if (linalg::Dot(constraints.row(i), vector) <= 0) ++violated;
  }
  return violated;
}

Matrix<double> WithUnitRows(ConstMatrixView matrix) {
  Matrix<double> unit = Matrix<double>::CopyOf(matrix);
  for (std::size_t i = 0; i < unit.rows(); ++i) {
    const double norm = linalg::Norm(unit.row(i));
    for (double& value : unit.row(i)) value /= norm > 0 ? norm : 1;
  }
  return unit;
}

/// A perceptron with a pocket: the vector that violated the fewest constraints, at half the ball's radius.
std::vector<double> FindStart(ConstMatrixView constraints) {
  std::vector<double> vector(constraints.cols(), 0.0);
  for (std::size_t i = 0; i < constraints.rows(); ++i) linalg::Axpy(1.0, constraints.row(i), vector);
  std::vector<double> best = vector;
  std::size_t fewest = CountViolated(constraints, vector);
  for (int sweep = 0; sweep < kPerceptronSweeps && fewest > 0; ++sweep) {
    for (std::size_t i = 0; i < constraints.rows(); ++i) {
      if (linalg::Dot(constraints.row(i), vector) <= 0) linalg::Axpy(1.0, constraints.row(i), vector);
    }
    const std::size_t violated = CountViolated(constraints, vector);
    if (violated >= fewest) continue;
    fewest = violated;
    best = vector;
  }
  const double norm = linalg::Norm(best);
  for (double& value : best) value *= norm > 0 ? 0.5 / norm : 1;
  return best;
}

/// The constraints that the vector meets, as columns, so that an axis is a row in memory.
Matrix<double> MetConstraintsByAxis(ConstMatrixView constraints, std::span<const double> vector) {
  std::vector<std::size_t> met;
  for (std::size_t i = 0; i < constraints.rows(); ++i) {
    if (linalg::Dot(constraints.row(i), vector) > 0) met.push_back(i);
  }
  Matrix<double> by_axis(constraints.cols(), met.size());
  for (std::size_t axis = 0; axis < constraints.cols(); ++axis) {
    for (std::size_t i = 0; i < met.size(); ++i) by_axis(axis, i) = constraints(met[i], axis);
  }
  return by_axis;
}

class HitAndRun {
 public:
  HitAndRun(ConstMatrixView by_axis, std::vector<double> start, std::uint64_t seed)
      : by_axis_(by_axis), point_(std::move(start)), margins_(by_axis.cols()), random_(seed) {
    Refresh();
  }

  void Move(std::size_t times) {
    ThrowIfStopRequested();
    for (std::size_t i = 0; i < times; ++i) MoveAlong(random_.Below(point_.size()));
    Refresh();
  }
  std::span<const double> point() const { return point_; }

 private:
  // Keeps rounding from adding up over many moves.
  void Refresh() {
    squared_norm_ = linalg::Dot(point_, point_);
    if (!margins_.empty()) linalg::Gemv(linalg::Transpose::kYes, 1.0, by_axis_, point_, 0.0, margins_);
  }

  void MoveAlong(std::size_t axis) {
    const double here = point_[axis];
    const double reach = std::sqrt(std::max(0.0, 1 - squared_norm_ + here * here));
    double low = -reach - here, high = reach - here;
    const auto slopes = by_axis_.row(axis);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const double step = -margins_[i] / slopes[i];
      low = slopes[i] > 0 ? std::max(low, step) : low;
      high = slopes[i] < 0 ? std::min(high, step) : high;
    }
    const double chance = random_.Uniform();
    if (!(low < high)) return;
    const double step = low + chance * (high - low);
    for (std::size_t i = 0; i < slopes.size(); ++i) margins_[i] += step * slopes[i];
    squared_norm_ += step * (step + 2 * here);
    point_[axis] += step;
  }

  ConstMatrixView by_axis_;
  std::vector<double> point_;
  std::vector<double> margins_;  // by constraint: how far inside
  double squared_norm_ = 0;
  Random random_;
};

}  // namespace

VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed) {
  const Matrix<double> unit = WithUnitRows(constraints);
  std::vector<double> start = FindStart(unit.view());
  const Matrix<double> by_axis = MetConstraintsByAxis(unit.view(), start);
  VersionSpaceSample sample;
  sample.dropped_count = constraints.rows() - by_axis.cols();
  sample.vectors = Matrix<double>(count, constraints.cols());
  HitAndRun walk(by_axis.view(), std::move(start), seed);
  walk.Move(kSweepsBefore * constraints.cols());
  for (std::size_t i = 0; i < count; ++i) {
    walk.Move(kSweepsBetween * constraints.cols());
    std::copy(walk.point().begin(), walk.point().end(), sample.vectors.row(i).begin());
  }
  return sample;
}

}  // namespace fulcrum::select
