
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsPerBlock = 512;
constexpr std::size_t kFewestReferences = 1024;
constexpr std::size_t kMostReferences = 8192;
constexpr std::size_t kReferencesPerLabel = 4;
// Gains are multiples of this share of the largest first one, well above float32 rounding: two rows that cover nothing
// but each other have equal gains, and the smaller row must win.
constexpr double kGainStep = 0x1p-18;

/// s(x, r) of rows and all references.
class Similarities {
 public:
  explicit Similarities(const CoverageProblem& problem)
      : distance_(problem.distance),
        scales_(problem.scales),
        sharpness_(static_cast<float>(1 / (problem.width * problem.width))),
        tiles_(KernelOf(problem), *problem.features, problem.references),
        inverse_scales_(InverseScales(problem.references)) {}

  /// 1 / a(x) of rows, if distances are local; otherwise empty.
  std::vector<float> InverseScales(std::span<const RowIndex> rows) const {
    std::vector<float> inverse;
    if (distance_ != Distance::kLocal) return inverse;
    inverse.reserve(rows.size());
    for (const double scale : scales_->Of(rows)) inverse.push_back(static_cast<float>(1 / scale));
    return inverse;
  }

  /// Calls consume(first, tile) with tile(r, i) = similarity of reference first + r and row i, whose inverse scales are
  /// given.
  template <typename Consumer>
  void ForEachTile(std::span<const RowIndex> rows, std::span<const float> inverse_scales,
                   const Consumer& consume) const {
    Matrix<float> memory(std::min(Tiles::kRows, tiles_.size()), rows.size());
    const auto all = [this] { return tiles_.size(); };
    tiles_.ForEachTransposedTile(tiles_.Pack(rows), memory.view(), all, [&](std::size_t first, const auto& tile) {
      for (std::size_t r = 0; r < tile.rows(); ++r) {
        if (distance_ == Distance::kAngular) FromCosines(memory.row(r));
        if (distance_ == Distance::kLocal) FromDistances(inverse_scales_[first + r], inverse_scales, memory.row(r));
      }
      consume(first, tile);
    });
  }
  void WriteRow(RowIndex row, float inverse_scale, std::span<float> values) const {
    tiles_.WriteRow(row, 0, values);
    if (distance_ == Distance::kAngular) FromCosines(values);
    if (distance_ == Distance::kLocal) FromDistances(inverse_scale, inverse_scales_, values);
  }

 private:
  using Tiles = kernel::KernelTiles<float>;

  static kernel::KernelFunction KernelOf(const CoverageProblem& problem) {
    switch (problem.distance) {
      case Distance::kAngular:
        return {.type = kernel::KernelType::kCosine};
      case Distance::kLocal:
        return {.type = kernel::KernelType::kSquaredDistance};
      case Distance::kEuclidean:
        break;
    }
    return {.type = kernel::KernelType::kRbf, .sigma = problem.width};
  }
  /// d^2 of unit rows is 2 - 2 cos.
  void FromCosines(std::span<float> values) const {
    for (float& value : values) value = (value - 1) * 2 * sharpness_;
    linalg::ExpInPlace(values);
  }
  void FromDistances(float one, std::span<const float> others, std::span<float> values) const {
    const float factor = -one * sharpness_;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factor * others[i];
    linalg::ExpInPlace(values);
  }

  Distance distance_;
  const LocalScales* scales_;
  float sharpness_;
  Tiles tiles_;
  std::vector<float> inverse_scales_;  // of the references
};

class Coverage {
 public:
  explicit Coverage(const CoverageProblem& problem)
      : problem_(problem),
        group_(problem.peers, problem.candidates.size()),
        similarities_(problem),
        inverse_scales_(similarities_.InverseScales(problem.candidates)),
        taken_(problem.candidates.size(), 0) {
    weights_.assign(problem.weights.begin(), problem.weights.end());
    for (const double squared : problem.nearest) {
      covered_.push_back(static_cast<float>(std::exp(-squared / (problem.width * problem.width))));
    }
  }

  absl::StatusOr<std::vector<Pick>> Choose() {
    std::vector<Pick> picks;
    const std::size_t batch = std::min(problem_.batch, group_.size());
    while (picks.size() < batch) {
      FULCRUM_RETURN_IF_ERROR(PickWhileThereIsGain(batch, picks));
      std::ranges::fill(covered_, 0.0F);
    }
    return picks;
  }

  /// The better batch of both orders. A gain after the batch bounds what an example could add to it.
  absl::StatusOr<Selection> Buy() {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<LazyQueue::Candidate> first, AllGains());
    const std::vector<float> start = covered_;
    Selection best;
    best.has_certificate = true;
    double bound = MostWorthOf(first);
    bool any = false;
    for (const BuyingOrder order : kBuyingOrders) {
      covered_ = start;
      std::ranges::fill(taken_, std::uint8_t{0});
      std::vector<Pick> picks = PickThatFits(order, first);
      double value = 0;
      for (const Pick& pick : picks) value += pick.gain;
      FULCRUM_ASSIGN_OR_RETURN(const std::vector<LazyQueue::Candidate> after, AllGains());
      bound = std::min(bound, value + MostWorthOf(after));
      if (!any || LargerFirst()(value, best.certificate.value)) {
        best.picks = std::move(picks);
        best.certificate.value = value;
      }
      any = true;
    }
    best.certificate.upper_bound = std::max(best.certificate.value, bound);
    return best;
  }

 private:
  double CostOf(std::uint32_t item) const { return problem_.cost.costs[problem_.candidates[item]]; }

  /// Gains are rounded to steps, so a bound has half a step more for each.
  double MostWorthOf(std::span<const LazyQueue::Candidate> candidates) const {
    std::vector<double> gains, costs;
    for (const LazyQueue::Candidate& candidate : candidates) {
      gains.push_back(candidate.gain + step_);
      costs.push_back(CostOf(candidate.item));
    }
    return MostWorth(gains, costs, problem_.batch, problem_.cost.budget);
  }

  std::vector<Pick> PickThatFits(BuyingOrder order, std::span<const LazyQueue::Candidate> first) {
    std::vector<LazyQueue::Candidate> candidates(first.begin(), first.end());
    for (LazyQueue::Candidate& candidate : candidates) {
      candidate.gain = PriorityOf(order, candidate.gain, CostOf(candidate.item));
    }
    LazyQueue queue(std::move(candidates));
    std::vector<float> values(covered_.size());
    std::vector<Pick> picks;
    Purse purse(problem_.cost.budget);
    while (picks.size() < problem_.batch && !queue.empty()) {
      ThrowIfStopRequested();
      const auto best = queue.PopBest(static_cast<std::uint32_t>(picks.size()), [&](std::uint32_t item) {
        return PriorityOf(order, GainOf(item, values), CostOf(item));
      });
      // What does not fit now never will.
      if (!purse.CanPay(CostOf(best.item))) continue;
      const double gain = GainOf(best.item, values);
      if (gain <= 0 && !picks.empty()) break;
      picks.push_back({.row = best.row, .gain = gain});
      purse.Pay(CostOf(best.item));
      taken_[best.item] = 1;
      for (std::size_t r = 0; r < values.size(); ++r) covered_[r] = std::max(covered_[r], values[r]);
    }
    return picks;
  }

  absl::Status PickWhileThereIsGain(std::size_t batch, std::vector<Pick>& picks) {
    FULCRUM_ASSIGN_OR_RETURN(std::vector<LazyQueue::Candidate> candidates, AllGains());
    LazyQueue queue(std::move(candidates));
    std::vector<float> values(covered_.size());
    for (std::uint32_t step = 0; picks.size() < batch; ++step) {
      ThrowIfStopRequested();
      std::optional<LazyQueue::Candidate> own;
      if (!queue.empty()) own = queue.PopBest(step, [&](std::uint32_t item) { return GainOf(item, values); });
      const GroupPeers::Champion best =
          group_.BestOf({own ? own->gain : 0.0, problem_.first_row + (own ? own->row : 0), own.has_value()});
      // The first is always taken, so that there is an end even if nothing is similar to anything.
      if (!best.is_there || (step > 0 && best.score <= 0)) return absl::OkStatus();
      picks.push_back({.row = static_cast<RowIndex>(best.position), .gain = best.score});
      if (best.rank == problem_.peers.rank()) {
        taken_[own->item] = 1;
      } else if (own) {
        queue.PutBack(*own);
      }
      WriteSimilarities(best, values);
      for (std::size_t r = 0; r < values.size(); ++r) covered_[r] = std::max(covered_[r], values[r]);
    }
    return absl::OkStatus();
  }

  /// Of a pick, which only one of the processes has, with all references.
  void WriteSimilarities(const GroupPeers::Champion& pick, std::span<float> values) const {
    const auto row = static_cast<RowIndex>(pick.position - (group_.is_alone() ? 0 : problem_.first_row));
    if (group_.is_alone()) return WriteRow(row, values);
    std::vector<double> features;
    if (pick.rank == problem_.peers.rank()) {
      const Matrix<double> dense = problem_.features->Pack(std::span(&row, 1)).ToDense();
      features.assign(dense.row(0).begin(), dense.row(0).end());
    }
    BroadcastValues(problem_.peers, features, pick.rank);
    const RowIndex guest = problem_.guests->Add(ConstMatrixView(features.data(), 1, features.size()))[0];
    WriteRow(guest, values);
    problem_.guests->DropFrom(guest);
  }

  void WriteRow(RowIndex row, std::span<float> values) const {
    const std::vector<float> inverse_scale = similarities_.InverseScales(std::span(&row, 1));
    similarities_.WriteRow(row, inverse_scale.empty() ? 1 : inverse_scale[0], values);
  }

  /// By candidate that is not taken.
  absl::StatusOr<std::vector<LazyQueue::Candidate>> AllGains() {
    const std::span<const RowIndex> rows = problem_.candidates;
    std::vector<double> gains(rows.size(), 0.0);
    ParallelForBlocks(rows.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
      AddGains(first, rows.subspan(first, count), std::span(gains).subspan(first, count));
    });
    FULCRUM_RETURN_IF_ERROR(AgreeOn(problem_.peers, CheckScores("gain in coverage", rows, gains)));
    if (step_ == 0) {
      const double largest = gains.empty() ? 0 : *std::ranges::max_element(gains);
      step_ = kGainStep * std::ranges::max(ShareValue(problem_.peers, largest));
    }
    std::vector<LazyQueue::Candidate> candidates;
    candidates.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (taken_[i] != 0) continue;
      candidates.push_back(
          {.gain = Rounded(gains[i]), .row = rows[i], .item = static_cast<std::uint32_t>(i), .step = 0});
    }
    return candidates;
  }

  void AddGains(std::size_t first_item, std::span<const RowIndex> rows, std::span<double> gains) const {
    std::array<float, kRowsPerBlock> sums;
    const auto scales = std::span(inverse_scales_).subspan(std::min(first_item, inverse_scales_.size()));
    similarities_.ForEachTile(rows, scales, [&](std::size_t first, MatrixView<const float> tile) {
      sums.fill(0.0F);
      for (std::size_t r = 0; r < tile.rows(); ++r) {
        const float weight = weights_[first + r], covered = covered_[first + r];
        const float* const values = tile.row(r).data();
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const float more = values[i] - covered;
          sums[i] += weight * (more < 0 ? 0 : more);  // NaN stays
        }
      }
      for (std::size_t i = 0; i < rows.size(); ++i) gains[i] += static_cast<double>(sums[i]);
    });
  }

  double GainOf(std::uint32_t item, std::span<float> values) const {
    similarities_.WriteRow(problem_.candidates[item], inverse_scales_.empty() ? 1 : inverse_scales_[item], values);
    double gain = 0;
    for (std::size_t r = 0; r < values.size(); ++r) {
      gain += static_cast<double>(weights_[r] * std::max(values[r] - covered_[r], 0.0F));
    }
    return Rounded(gain);
  }

  double Rounded(double gain) const { return step_ > 0 ? std::round(gain / step_) * step_ : 0; }

  const CoverageProblem& problem_;
  const GroupPeers group_;
  const Similarities similarities_;
  const std::vector<float> inverse_scales_;  // by candidate, if distances are local
  std::vector<float> weights_, covered_;     // w_r and m_r
  std::vector<std::uint8_t> taken_;          // by candidate
  double step_ = 0;                          // of gains; 0 before they are known
};

}  // namespace

absl::StatusOr<std::vector<Pick>> MaximizeCoverage(const CoverageProblem& problem) {
  return Coverage(problem).Choose();
}

absl::StatusOr<Selection> BuyCoverage(const CoverageProblem& problem) {
  if (!problem.peers.is_alone()) return absl::UnimplementedError("several processes do not weigh costs");
  return Coverage(problem).Buy();
}

PoolCover::PoolCover(const Candidates& candidates, Distance distance)
    : candidates_(candidates),
      distance_(distance),
      labeled_(LabeledRows(candidates.labels)),
      references_(SampleReferences(candidates.labels.size(), labeled_.size() + candidates.batch, candidates.seed)),
      scales_(*candidates.features,
              distance == Distance::kLocal ? std::span<const RowIndex>(references_) : std::span<const RowIndex>()),
      nearest_(NearestSquaredDistances(*candidates.features, distance, references_, labeled_, scales())) {}

double PoolCover::MedianSquared() const {
  return MedianSquaredDistance(*candidates_.features, references_, scales());
}

absl::StatusOr<Selection> PoolCover::Select(double width, std::span<const double> weights) const {
  FULCRUM_RETURN_IF_ERROR(CheckScores("weight", references_, weights));
  const RowList unlabeled = UnlabeledRows(candidates_.labels);
  const CoverageProblem problem = {.features = candidates_.features,
                                   .distance = distance_,
                                   .scales = scales(),
                                   .width = width,
                                   .references = references_,
                                   .weights = weights,
                                   .nearest = nearest_,
                                   .candidates = unlabeled,
                                   .batch = candidates_.batch,
                                   .cost = candidates_.cost};
  Selection selection;
  if (problem.cost.limits()) {
    FULCRUM_ASSIGN_OR_RETURN(selection, BuyCoverage(problem));
  } else {
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, MaximizeCoverage(problem));
  }
  AnnotateClasses(candidates_, selection.picks);
  return selection;
}

RowList SampleReferences(std::size_t pool_rows, std::size_t labeled_and_batch, std::uint64_t seed) {
  const std::size_t wanted = std::clamp(kReferencesPerLabel * labeled_and_batch, kFewestReferences, kMostReferences);
  if (pool_rows <= wanted) {
    RowList all(pool_rows);
    std::iota(all.begin(), all.end(), RowIndex{0});
    return all;
  }
  Random random = Random::Fork(seed, pool_rows);
  // A larger sample begins with the smaller one.
  const std::vector<std::uint64_t> drawn = DrawDifferent(pool_rows, wanted, random);
  RowList rows(drawn.begin(), drawn.end());
  std::ranges::sort(rows);
  return rows;
}

}  // namespace fulcrum::select
