#include "stages/select/posterior/remaining_mass.h"

#include <algorithm>
#include <cassert>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"
#include "stages/select/greedy/submodular_greedy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kExamplesPerBlock = 1024;

/// What seeing one label leaves of a pair of hypotheses.
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

/// The mass of every pair of hypotheses, given the labels of the batch so far. Hypotheses that agree on all of the
/// batch are alike in this, so masses are kept by group of them: there are few at first, and never more than
/// hypotheses.
class PairMasses {
 public:
  PairMasses(std::size_t hypotheses, const LabelModel& model)
      : class_count_(model.class_count), factors_(model), group_of_(hypotheses, 0), masses_(1, 1) {
    masses_(0, 0) = 1 / (static_cast<double>(hypotheses) * static_cast<double>(hypotheses));
  }

  double total() const { return total_; }

  /// How much of the total the label of an example takes away. `counts` is memory to work in.
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

  /// Mass of the pairs inside a set with this many hypotheses of each group.
  double MassWithin(std::span<const double> counts) const {
    double mass = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) mass += counts[i] * linalg::Dot(masses_.row(i), counts);
    }
    return mass;
  }

  /// Divides each group by prediction and tells every hypothesis its new group.
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
  Matrix<double> masses_;                // of one pair, by the groups of the two
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
