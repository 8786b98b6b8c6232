#include "stages/select/posterior/version_space.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/lapack.h"

namespace fulcrum::select {
namespace {

constexpr int kPerceptronSweeps = 1000;
// Number of moves, as a multiple of the number of dimensions, before the first sample and between samples.
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

/// Pocket perceptron: returns the vector that violates the fewest constraints, at half the radius of the ball.
std::vector<double> FindStart(ConstMatrixView constraints) {
  std::vector<double> vector(constraints.cols(), 0.0);
  for (std::size_t i = 0; i < constraints.rows(); ++i) linalg::Axpy(1.0, constraints.row(i), vector);
  std::vector<double> best = vector;
  std::size_t fewest = CountViolated(constraints, vector);
  for (int sweep = 0; sweep < kPerceptronSweeps && fewest > 0; ++sweep) {
    ThrowIfStopRequested();
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

/// The constraints that the vector satisfies, as columns, so that an axis is contiguous in memory.
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
      : by_axis_(by_axis),
        negative_reciprocals_(by_axis.rows(), by_axis.cols()),
        point_(std::move(start)),
        margins_(by_axis.cols()),
        random_(seed) {
    for (std::size_t axis = 0; axis < by_axis.rows(); ++axis) {
      const auto slopes = by_axis.row(axis);
      const auto reciprocals = negative_reciprocals_.row(axis);
      // A constraint parallel to the axis never bounds the chord.
      for (std::size_t i = 0; i < slopes.size(); ++i) reciprocals[i] = slopes[i] != 0 ? -1 / slopes[i] : 0;
    }
    Refresh();
  }

  void Move(std::size_t times) {
    ThrowIfStopRequested();
    for (std::size_t i = 0; i < times; ++i) MoveAlong(random_.Below(point_.size()));
    Refresh();
  }
  std::span<const double> point() const { return point_; }

 private:
  // Prevents rounding errors from accumulating over many moves.
  void Refresh() {
    squared_norm_ = linalg::Dot(point_, point_);
    if (!margins_.empty()) linalg::Gemv(linalg::Transpose::kYes, 1.0, by_axis_, point_, 0.0, margins_);
  }

  struct Room {
    double low = 0;
    double high = 0;
  };

  /// Returns how far one can move along an axis without violating a constraint. Eight lanes, because the compiler must
  /// not reorder a maximum.
  Room RoomAlong(std::size_t axis, Room room) const {
    constexpr std::size_t kLanes = 8;
    const double* const reciprocals = negative_reciprocals_.row(axis).data();
    double low[kLanes], high[kLanes];
    std::fill_n(low, kLanes, room.low);
    std::fill_n(high, kLanes, room.high);
    const auto look = [&](std::size_t i, std::size_t lane) {
      const double step = margins_[i] * reciprocals[i];
      const double from_below = reciprocals[i] < 0 ? step : room.low,
                   from_above = reciprocals[i] > 0 ? step : room.high;
      low[lane] = from_below > low[lane] ? from_below : low[lane];
      high[lane] = from_above < high[lane] ? from_above : high[lane];
    };
    const std::size_t whole = margins_.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) look(i + lane, lane);
    }
    for (std::size_t i = whole; i < margins_.size(); ++i) look(i, i - whole);
    return {*std::max_element(low, low + kLanes), *std::min_element(high, high + kLanes)};
  }

  void MoveAlong(std::size_t axis) {
    const double here = point_[axis];
    const double reach = std::sqrt(std::max(0.0, 1 - squared_norm_ + here * here));
    const Room room = RoomAlong(axis, {-reach - here, reach - here});
    const double chance = random_.Uniform();
    if (!(room.low < room.high)) return;
    const double step = room.low + chance * (room.high - room.low);
    linalg::Axpy(step, by_axis_.row(axis), margins_);
    squared_norm_ += step * (step + 2 * here);
    point_[axis] += step;
  }

  ConstMatrixView by_axis_;
  Matrix<double> negative_reciprocals_;  // -1 / slope: one multiplication per move instead of a division
  std::vector<double> point_;
  std::vector<double> margins_;  // by constraint: distance to its boundary
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

namespace {

constexpr kernel::KernelFunction kLinear{.type = kernel::KernelType::kLinear};

// A row whose squared distance to the space is below this share of its squared length only adds rounding errors.
constexpr double kNewDirectionShare = 1e-8;

}  // namespace

SpanBasis::SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows) : features_(features) {
  const std::size_t most = std::min(rows.size(), features.dims());
  lower_ = Matrix<double>::Zero(most, most);
  Matrix<double> gram(rows.size(), rows.size());
  kernel::ComputeKernelSymmetric(kLinear, features, rows, gram.view());
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < rows.size() && kept.size() < most; ++i) {
    const auto candidate = lower_.row(kept.size());
    double left = gram(i, i);
    for (std::size_t j = 0; j < kept.size(); ++j) {
      const auto before = std::span<const double>(lower_.row(j)).first(j);
      candidate[j] = (gram(i, kept[j]) - linalg::Dot(before, candidate.first(j))) / lower_(j, j);
      left -= candidate[j] * candidate[j];
    }
    if (!(left > kNewDirectionShare * gram(i, i))) continue;
    candidate[kept.size()] = std::sqrt(left);
    kept.push_back(i);
    anchors_.push_back(rows[i]);
  }
}

Matrix<double> SpanBasis::Coordinates(std::span<const RowIndex> rows) const {
  Matrix<double> coordinates(rows.size(), anchors_.size());
  if (coordinates.empty()) return coordinates;
  kernel::ComputeKernelBlock(kLinear, features_, rows, anchors_, coordinates.view());
  linalg::SolveLowerForRows(lower_.view().Block(0, 0, anchors_.size(), anchors_.size()), coordinates.view());
  return coordinates;
}

void SpanBasis::ToAnchorWeights(MutableMatrixView vectors) const {
  linalg::SolveLowerTransposedForRows(lower_.view().Block(0, 0, anchors_.size(), anchors_.size()), vectors);
}

}  // namespace fulcrum::select
