// Core-set selection (Sener, Savarese 2018), greedy k-center: take the example farthest from its nearest labeled or
// picked one, by Euclidean distance of the features,
//   argmax_x min_{s in S} |x - s|^2.
// Distances only shrink as S grows, so a distance computed earlier is an upper bound: one pass compares all rows with
// the labeled ones, and later only rows that could be the farthest are compared with the picks that they have not seen.
// Without labels the first pick is that of herding, because no row is farthest from nothing.
#include <algorithm>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

class KCenterRun {
 public:
  explicit KCenterRun(const Candidates& candidates)
      : candidates_(candidates), rows_(UnlabeledRows(candidates.labels)), seen_(rows_.size(), 0) {}

  absl::StatusOr<Selection> Choose() {
    Selection selection;
    const RowList labeled = LabeledRows(candidates_.labels);
    if (labeled.empty()) {
      Candidates one = candidates_;
      one.batch = 1;
      FULCRUM_ASSIGN_OR_RETURN(selection, MakeHerding()->Select(one));
      picked_.push_back(selection.picks[0].row);
      std::erase(rows_, picked_[0]);
    }
    distances_ = NearestSquaredDistances(*candidates_.features, Distance::kEuclidean, rows_, labeled);
    FULCRUM_RETURN_IF_ERROR(CheckScores("distance", rows_, distances_));
    LazyQueue queue(Bounds());
    const std::size_t batch = std::min(candidates_.batch, picked_.size() + rows_.size());
    while (selection.picks.size() < batch) {
      ThrowIfStopRequested();
      const auto step = static_cast<std::uint32_t>(picked_.size());
      const LazyQueue::Candidate best = queue.PopBest(step, [&](std::uint32_t item) { return Update(item); });
      selection.picks.push_back({.row = best.row, .gain = best.gain});
      picked_.push_back(best.row);
    }
    AnnotateClasses(candidates_, selection.picks);
    return selection;
  }

 private:
  std::vector<LazyQueue::Candidate> Bounds() const {
    std::vector<LazyQueue::Candidate> bounds;
    bounds.reserve(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      bounds.push_back({.gain = distances_[i], .row = rows_[i], .item = static_cast<std::uint32_t>(i), .step = 0});
    }
    return bounds;
  }

  double Update(std::uint32_t item) {
    const auto unseen = std::span(picked_).subspan(seen_[item]);
    const double nearest =
        NearestSquaredDistances(*candidates_.features, Distance::kEuclidean, std::span(&rows_[item], 1), unseen)[0];
    distances_[item] = std::min(distances_[item], nearest);
    seen_[item] = static_cast<std::uint32_t>(picked_.size());
    return distances_[item];
  }

  const Candidates& candidates_;
  RowList rows_, picked_;
  std::vector<double> distances_;    // squared, to the nearest of the labeled and the first seen_ picks
  std::vector<std::uint32_t> seen_;  // by candidate
};

class KCenter final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool ignores_answers() const override { return true; }
  bool needs_labels() const override { return false; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return KCenterRun(candidates).Choose();
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeKCenter() {
  return std::make_unique<KCenter>();
}

}  // namespace fulcrum::select
