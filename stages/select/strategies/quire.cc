// QUIRE (Huang, Jin, Zhou 2010) in closed form. METHOD section 2: with L = (K + lambda I)^-1, the criterion
//   L_ss - L_sa L_aa^-1 L_as + 2 |(L_sl - L_sa L_aa^-1 L_al) y_l|  equals  (1 + 2 |f_s|) / B_ss,
// where f and B are the mean and the variance (noise included) of the Gaussian process given the labeled examples. K is
// the classifier's kernel and lambda is 1. Picks have the inverse, B_ss / (1 + 2 |f_s|), largest first.
// C > 2 classes: the sum of the C one-against-rest criteria, (C + 2 sum_c |f_s^c|) / B_ss.
// QUIRE is defined for one query. In a batch B is updated by rank one as if the pick were labeled, and f, which would
// need its label, is kept. Any number of rows: one pass scores all of them, a shortlist of the best is updated after
// every pick, and there is another pass only if the shortlist may no longer have the best of all.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr double kLambda = 1;
// A member needs one number per label and pick, and kernel values with all of them.
constexpr std::size_t kLongestShortlist = 4096;

/// One row of +1 and -1 for two classes; one row per class, one against rest, for more.
Matrix<double> Targets(const Candidates& candidates, std::span<const RowIndex> labeled) {
  Matrix<double> targets(candidates.class_count == 2 ? 1 : candidates.class_count, labeled.size());
  for (std::size_t c = 0; c < targets.rows(); ++c) {
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      targets(c, i) = candidates.labels[labeled[i]] == static_cast<ClassIndex>(c) ? 1 : -1;
    }
  }
  return targets;
}

/// The part of the criterion that a batch does not change: 1 + 2 |f_s|, summed over the targets.
std::vector<double> Confidences(ConstMatrixView means) {
  std::vector<double> sums(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) {
    for (const double mean : means.row(i)) sums[i] += 1 + 2 * std::abs(mean);
  }
  return sums;
}

/// Selects the smallest criteria, as the largest inverses, one after the other. Variances only decrease as a batch
/// grows, so a score is an upper bound for later picks: while the best score of the shortlist is larger than every
/// score outside it in the last pass, it is the best of all.
class QuireRun {
 public:
  QuireRun(const Candidates& candidates, std::size_t shortlist)
      : candidates_(candidates),
        longest_(shortlist),
        rows_(UnlabeledRows(candidates.labels)),
        given_(LabeledRows(candidates.labels)),
        open_(rows_.size(), 1) {}

  absl::StatusOr<Selection> Select() {
    const std::size_t batch = std::min(candidates_.batch, rows_.size());
    while (selection_.picks.size() < batch) {
      FULCRUM_ASSIGN_OR_RETURN(const Posterior everyone, ScoreAll());
      PickFromShortlist(everyone, batch);
    }
    AnnotateClasses(candidates_, selection_.picks);
    return std::move(selection_);
  }

 private:
  /// One pass over the pool. The means depend only on the labels, so the first pass computes them for all later ones.
  absl::StatusOr<Posterior> ScoreAll() {
    const bool first = confidences_.empty();
    const Matrix<double> targets = first ? Targets(candidates_, given_) : Matrix<double>();
    FULCRUM_ASSIGN_OR_RETURN(Posterior posterior, Posterior::Compute({.features = candidates_.features,
                                                                      .kernel = candidates_.classifier_kernel,
                                                                      .labeled = given_,
                                                                      .candidates = rows_,
                                                                      .noise = kLambda,
                                                                      .targets = targets.view()}));
    if (first) confidences_ = Confidences(posterior.means());
    scores_.resize(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      scores_[i] = (posterior.variances()[i] + kLambda) / confidences_[i];
    }
    FULCRUM_RETURN_IF_ERROR(CheckScores("score", rows_, scores_));
    return posterior;
  }

  /// Positions of the best, ascending, and the best of the others, if any.
  struct Shortlist {
    std::vector<std::size_t> members;
    std::optional<std::size_t> best_outside;
  };

  Shortlist MakeShortlist() const {
    Shortlist list;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (open_[i]) list.members.push_back(i);
    }
    if (list.members.size() <= longest_) return list;
    const auto end = list.members.begin() + static_cast<std::ptrdiff_t>(longest_);
    std::ranges::nth_element(list.members, end, [this](std::size_t a, std::size_t b) {
      return GoesBefore(scores_[a], rows_[a], scores_[b], rows_[b]);
    });
    list.best_outside = *end;
    list.members.erase(end, list.members.end());
    std::ranges::sort(list.members);
    return list;
  }

  bool IsBeaten(std::size_t position, double score, const Shortlist& list) const {
    if (!list.best_outside) return false;
    const std::size_t rival = *list.best_outside;
    return GoesBefore(scores_[rival], rows_[rival], score, rows_[position]);
  }

  void PickFromShortlist(const Posterior& everyone, std::size_t batch) {
    const Shortlist list = MakeShortlist();
    RowList rows;
    for (const std::size_t position : list.members) rows.push_back(rows_[position]);
    Posterior posterior = everyone.Over(rows, batch - selection_.picks.size());
    // The first is always accepted: only rounding could make it worse than the others.
    for (bool first = true; selection_.picks.size() < batch; first = false) {
      ThrowIfStopRequested();
      const std::optional<std::size_t> best = BestOf(list, posterior);
      if (!best) break;
      const double score = ScoreOf(list, posterior, *best);
      if (!first && IsBeaten(list.members[*best], score, list)) break;
      Take(list.members[*best], score);
      posterior.Label(*best);
    }
  }

  double ScoreOf(const Shortlist& list, const Posterior& posterior, std::size_t member) const {
    return (posterior.variances()[member] + kLambda) / confidences_[list.members[member]];
  }

  /// Rows ascend, so ties go to the smaller row.
  std::optional<std::size_t> BestOf(const Shortlist& list, const Posterior& posterior) const {
    std::optional<std::size_t> best;
    double best_score = 0;
    for (std::size_t i = 0; i < list.members.size(); ++i) {
      const double score = ScoreOf(list, posterior, i);
      if (!open_[list.members[i]] || (best && !LargerFirst()(score, best_score))) continue;
      best = i;
      best_score = score;
    }
    return best;
  }

  void Take(std::size_t position, double score) {
    open_[position] = 0;
    given_.push_back(rows_[position]);
    selection_.picks.push_back({.row = rows_[position], .gain = score});
  }

  const Candidates& candidates_;
  const std::size_t longest_;
  const RowList rows_;
  RowList given_;  // the labeled rows, then the picks
  std::vector<std::uint8_t> open_;
  std::vector<double> confidences_, scores_;  // by candidate
  Selection selection_;
};

class Quire final : public Strategy {
 public:
  explicit Quire(std::size_t shortlist) : shortlist_(shortlist) {}

  Requirements requirements() const override { return {}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return QuireRun(candidates, shortlist_).Select();
  }

 private:
  std::size_t shortlist_;
};

}  // namespace

std::unique_ptr<Strategy> MakeQuire() {
  return MakeQuireWithShortlist(kLongestShortlist);
}

std::unique_ptr<Strategy> MakeQuireWithShortlist(std::size_t shortlist) {
  return std::make_unique<Quire>(shortlist);
}

}  // namespace fulcrum::select
