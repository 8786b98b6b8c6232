#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/posterior/posterior.h"

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

namespace {

constexpr std::size_t kExamplesPerBlock = 1024;

/// The remaining factor of a pair of hypotheses after one label.
struct PairFactors {
  explicit PairFactors(const LabelModel& model) {
    const auto others = static_cast<double>(model.class_count - 1);
    const double flip = model.noise / others;
    agree = (1 - model.noise) * (1 - model.noise) + others * flip * flip;
    disagree = 2 * (1 - model.noise) * flip + (others - 1) * flip * flip;
  }
  double agree = 1;
  double disagree = 0;
};

/// The mass of every pair of hypotheses, given the labels of the batch so far. Hypotheses that agree on the whole batch
/// have the same mass, so masses are stored per group of them. There are few groups at first, and never more than
/// hypotheses.
class PairMasses {
 public:
  PairMasses(std::size_t hypotheses, const LabelModel& model)
      : class_count_(model.class_count), factors_(model), group_of_(hypotheses, 0), masses_(1, 1) {
    masses_(0, 0) = 1 / (static_cast<double>(hypotheses) * static_cast<double>(hypotheses));
  }

  double total() const { return total_; }

  /// Returns how much the label of an example reduces the total. `counts` is working memory.
  double Reduction(std::span<const std::uint16_t> predicted, std::vector<double>& counts) const {
    const std::size_t groups = masses_.rows();
    counts.assign(class_count_ * groups, 0.0);
    for (std::size_t h = 0; h < predicted.size(); ++h) counts[predicted[h] * groups + group_of_[h]] += 1;
    double agreeing = 0;
    for (std::size_t c = 0; c < class_count_; ++c)
      agreeing += MassWithin(std::span(counts).subspan(c * groups, groups));
    return total_ - (factors_.disagree * total_ + (factors_.agree - factors_.disagree) * agreeing);
  }

  void Observe(std::span<const std::uint16_t> predicted) {
    std::vector<Group> groups = Split(predicted);
    Matrix<double> masses(groups.size(), groups.size());
    std::vector<double> sizes;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      sizes.push_back(groups[i].size);
      for (std::size_t j = 0; j < groups.size(); ++j) {
        const bool agree = groups[i].predicted == groups[j].predicted;
        masses(i, j) = masses_(groups[i].parent, groups[j].parent) * (agree ? factors_.agree : factors_.disagree);
      }
    }
    masses_ = std::move(masses);
    total_ = MassWithin(sizes);
  }

 private:
  struct Group {
    std::uint32_t parent = 0;
    std::uint16_t predicted = 0;
    double size = 0;
  };

  /// Returns the mass of the pairs inside a set with this many hypotheses per group.
  double MassWithin(std::span<const double> counts) const {
    double mass = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) mass += counts[i] * linalg::Dot(masses_.row(i), counts);
    }
    return mass;
  }

  /// Splits each group by prediction and assigns every hypothesis to its new group.
  std::vector<Group> Split(std::span<const std::uint16_t> predicted) {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::vector<std::uint32_t> index(masses_.rows() * class_count_, kNone);
    std::vector<Group> groups;
    for (std::size_t h = 0; h < predicted.size(); ++h) {
      std::uint32_t& group = index[group_of_[h] * class_count_ + predicted[h]];
      if (group == kNone) {
        group = static_cast<std::uint32_t>(groups.size());
        groups.push_back({.parent = group_of_[h], .predicted = predicted[h]});
      }
      groups[group].size += 1;
      group_of_[h] = group;
    }
    return groups;
  }

  std::size_t class_count_;
  PairFactors factors_;
  std::vector<std::uint32_t> group_of_;  // by hypothesis
  Matrix<double> masses_;                // of one pair, by the groups of its hypotheses
  double total_ = 1;
};

std::vector<LazyQueue::Candidate> FirstReductions(PredictionTable predictions, std::span<const RowIndex> rows,
                                                  const PairMasses& masses) {
  std::vector<LazyQueue::Candidate> candidates(predictions.rows());
  ParallelForBlocks(candidates.size(), kExamplesPerBlock, [&](std::size_t first, std::size_t count) {
    std::vector<double> counts;
    for (std::size_t i = first; i < first + count; ++i) {
      candidates[i] = {.gain = masses.Reduction(predictions.row(i), counts),
                       .row = rows[i],
                       .item = static_cast<std::uint32_t>(i),
                       .step = 0};
    }
  });
  return candidates;
}

}  // namespace

double ExpectedRemainingMass(PredictionTable predictions, const LabelModel& model) {
  PairMasses masses(predictions.cols(), model);
  for (std::size_t i = 0; i < predictions.rows(); ++i) masses.Observe(predictions.row(i));
  return masses.total();
}

std::vector<MassReduction> ReduceMassGreedily(PredictionTable predictions, std::span<const RowIndex> rows,
                                              const LabelModel& model, std::size_t batch) {
  assert(rows.size() == predictions.rows());
  PairMasses masses(predictions.cols(), model);
  LazyQueue queue(FirstReductions(predictions, rows, masses));
  std::vector<MassReduction> chosen;
  std::vector<double> counts;
  while (chosen.size() < batch && !queue.empty()) {
    ThrowIfStopRequested();
    const auto step = static_cast<std::uint32_t>(chosen.size());
    const auto best =
        queue.PopBest(step, [&](std::uint32_t i) { return masses.Reduction(predictions.row(i), counts); });
    chosen.push_back({.example = best.item, .reduction = best.gain});
    masses.Observe(predictions.row(best.item));
  }
  return chosen;
}

}  // namespace fulcrum::select
