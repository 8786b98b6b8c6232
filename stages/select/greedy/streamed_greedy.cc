#include "stages/select/greedy/streamed_greedy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

// If more than one in three scores was requested, computing all of them at once is cheaper.
constexpr std::size_t kMostAskedOneOf = 3;

}  // namespace

SettledScores::SettledScores(std::span<const double> scores, double slack, ExactScores exact)
    : at_most_(scores.begin(), scores.end()), exact_(std::move(exact)) {
  if (!(slack > 0)) return;
  settled_.assign(scores.size(), 0);
  for (double& score : at_most_) score += slack;
}

bool SettledScores::Settle(std::span<const std::size_t> positions) {
  if (settled_.empty()) return false;
  std::vector<std::size_t> open;
  for (const std::size_t position : positions) {
    if (!settled_[position]) open.push_back(position);
  }
  if (open.empty()) return false;
  if ((settled_count_ + open.size()) * kMostAskedOneOf > at_most_.size()) {
    open.resize(at_most_.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
  }
  Ask(open);
  return true;
}

void SettledScores::Ask(std::span<const std::size_t> positions) {
  const std::vector<double> scores = exact_(positions);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    at_most_[positions[i]] = scores[i];
    settled_[positions[i]] = 1;
  }
  settled_count_ += positions.size();
  if (positions.size() == at_most_.size()) settled_.clear();
}

namespace {

constexpr std::size_t kPositionsPerBlock = 16384;
// Enough to find a threshold with about the requested number of candidates above it.
constexpr std::size_t kGainsSampled = 65536;
// A rejected proposal costs a pass over all candidates, and so does a short one.
constexpr std::size_t kFewestAtATurn = 8;
constexpr std::size_t kMostAtATurn = SimilaritySums::kPicksAtOnce;

double SumOfLargest(std::vector<double> values, std::size_t count) {
  count = std::min(count, values.size());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < values.size()) std::nth_element(values.begin(), middle, values.end(), LargerFirst());
  // In order, so that the sum does not depend on how the library partitions.
  std::sort(values.begin(), middle, LargerFirst());
  return std::accumulate(values.begin(), middle, 0.0);
}

class StreamedRun {
 public:
  explicit StreamedRun(const StreamedProblem& problem)
      : problem_(problem),
        group_(problem.peers, problem.rows.size()),
        sums_(problem.kernel, *problem.features, problem.rows),
        scores_(problem.scores, problem.slack, problem.exact_scores),
        open_(problem.rows.size(), 1) {
    for (const std::size_t position : problem.labeled) open_[position] = 0;
    const std::size_t labeled = group_.Sum(problem.labeled.size());
    batch_ = std::min(problem.batch, group_.size() - labeled);
    const std::size_t capacity = labeled + batch_;
    factor_ = capacity > 0 ? problem.alpha / static_cast<double>(capacity) : 0.0;
  }

  absl::StatusOr<GreedyBatch> Run() {
    FULCRUM_RETURN_IF_ERROR(AddLabeled());
    const double first_bound = value_ + SumOfLargest(group_.Largest(OpenGains(), batch_), batch_);
    while (result_.positions.size() < batch_) {
      ThrowIfStopRequested();
      const Proposal proposal = ProposeFromShortlist();
      if (proposal.rows.empty()) continue;
      FULCRUM_RETURN_IF_ERROR(Take(proposal));
      ++result_.evaluations;
    }
    result_.value = value_;
    FULCRUM_ASSIGN_OR_RETURN(const double tangent_bound, TangentBound());
    result_.upper_bound = std::max(value_, std::min(first_bound, tangent_bound));
    RememberSums();
    return std::move(result_);
  }

 private:
  double GainOf(std::size_t position) const {
    return std::fma(-factor_, sums_.values()[position], scores_.AtMost(position) + 1);
  }
  double OwnSimilarity(std::size_t position) const {
    return kernel::KernelDiagonal(problem_.kernel, problem_.features->squared_norms()[problem_.rows[position]]);
  }

  absl::Status AddLabeled() {
    scores_.Settle(problem_.labeled);
    RowList rows(problem_.given.begin(), problem_.given.end());
    if (rows.empty()) {
      for (const std::size_t position : problem_.labeled) rows.push_back(problem_.rows[position]);
    }
    std::sort(rows.begin(), rows.end());
    absl::StatusOr<std::vector<double>> sums =
        Similarities().Recall(problem_.kernel, *problem_.features, problem_.rows, rows);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(problem_.peers, sums.status()));
    if (problem_.similarities) to_labeled_ = {rows, *sums};
    sums_.StartFrom(*std::move(sums));
    struct Labeled {
      double similarity_to_others, worth;
    };
    std::vector<Labeled> labeled;
    for (const std::size_t position : problem_.labeled) {
      labeled.push_back({sums_.values()[position] - OwnSimilarity(position), scores_.AtMost(position) + 1});
    }
    double twice_the_pairs = 0;
    for (const Labeled& one : ShareValues(problem_.peers, std::move(labeled))) {
      twice_the_pairs += one.similarity_to_others;
      value_ += one.worth;
    }
    value_ -= factor_ * twice_the_pairs / 2;
    return absl::OkStatus();
  }

  SimilarityMemory& Similarities() { return problem_.similarities ? *problem_.similarities : nothing_remembered_; }

  /// If factor_ is 0, picks were not added to the sums.
  void RememberSums() {
    if (!problem_.similarities || !(factor_ > 0)) return;
    RowList given = to_labeled_.given;
    given.insert(given.end(), picked_rows_.begin(), picked_rows_.end());
    std::sort(given.begin(), given.end());
    problem_.similarities->Remember(problem_.rows, std::move(to_labeled_), {std::move(given), sums_.Release()});
  }

  std::vector<double> OpenGains() const {
    std::vector<double> gains;
    for (std::size_t position = 0; position < open_.size(); ++position) {
      if (open_[position]) gains.push_back(GainOf(position));
    }
    return gains;
  }

  /// Returns a threshold with about `count` gains above it, from a sample at regular distances.
  double EdgeOfBest(std::size_t count) const {
    const std::size_t stride = std::max<std::size_t>(1, group_.size() / kGainsSampled);
    std::vector<double> sample;
    for (std::size_t position = (stride - group_.first() % stride) % stride; position < open_.size();
         position += stride) {
      if (open_[position]) sample.push_back(GainOf(position));
    }
    sample = GatherValues(problem_.peers, std::move(sample));
    const std::size_t wanted = count / stride;
    double edge = -std::numeric_limits<double>::infinity();
    if (wanted < sample.size()) {
      const auto middle = sample.begin() + static_cast<std::ptrdiff_t>(wanted);
      std::nth_element(sample.begin(), middle, sample.end(), LargerFirst());
      edge = *middle;
    }
    return BroadcastValue(problem_.peers, edge);
  }

  /// Returns the candidates whose gain is above `edge`.
  std::vector<Shortlist::Member> MembersAbove(double edge) const {
    std::vector<std::vector<Shortlist::Member>> of_block(open_.size() / kPositionsPerBlock + 1);
    ParallelForBlocks(open_.size(), kPositionsPerBlock, [&](std::size_t first, std::size_t count) {
      for (std::size_t position = first; position < first + count; ++position) {
        if (!open_[position] || !(GainOf(position) > edge)) continue;
        of_block[first / kPositionsPerBlock].push_back(MemberAt(position));
      }
    });
    std::vector<Shortlist::Member> members;
    for (const auto& some : of_block) members.insert(members.end(), some.begin(), some.end());
    return members;
  }

  Shortlist::Member MemberAt(std::size_t position) const {
    return {position, problem_.rows[position], scores_.AtMost(position), sums_.values()[position]};
  }

  /// The best candidate of all, on the rank that has it.
  std::vector<Shortlist::Member> BestOfAll() const {
    std::size_t best = open_.size();
    for (std::size_t position = 0; position < open_.size(); ++position) {
      if (!open_[position]) continue;
      const bool better = best == open_.size() ||
                          GoesBefore(GainOf(position), problem_.rows[position], GainOf(best), problem_.rows[best]);
      if (better) best = position;
    }
    const bool is_there = best < open_.size();
    const auto winner = group_.BestOf({is_there ? GainOf(best) : 0.0, group_.first() + best, is_there});
    if (!group_.IsOwn(winner.position)) return {};
    return {MemberAt(winner.position - group_.first())};
  }

  /// Returns false if all scores were already exact.
  bool SettleScoresOf(const std::vector<Shortlist::Member>& members) {
    std::vector<std::size_t> positions;
    for (const Shortlist::Member& member : members) positions.push_back(member.position);
    return scores_.Settle(positions);
  }

  struct Best {
    double edge = 0;
    std::vector<Shortlist::Member> members = {};  // all with a gain above it, with exact scores
  };

  Best SettleTheBest() {
    for (;;) {
      ThrowIfStopRequested();
      Best best{.edge = EdgeOfBest(problem_.shortlist)};
      best.members = MembersAbove(best.edge);
      if (!SettleScoresOf(best.members)) return best;
      best.members = MembersAbove(best.edge);
      // If too many gains decreased when their scores became exact, the threshold was too high.
      if (best.members.size() >= problem_.shortlist / 4) return best;
    }
  }

  /// Picks from the shortlist, not yet applied to the other candidates.
  struct Proposal {
    std::vector<std::size_t> positions = {};  // in the whole group
    std::vector<double> gains = {};
    RowList rows = {};
  };

  Proposal ProposeFromShortlist() {
    auto [edge, members] = SettleTheBest();
    std::size_t most = std::min(turn_, batch_ - result_.positions.size());
    if (group_.Sum(members.size()) == 0) {
      // More candidates share the largest gain than fit into a shortlist; one pick separates them.
      edge = -std::numeric_limits<double>::infinity();
      members = BestOfAll();
      most = 1;
    }
    if (SettleScoresOf(members)) return {};
    rivals_ = open_;
    for (const Shortlist::Member& member : members) rivals_[member.position] = 0;
    if (group_.is_alone()) return Propose(*problem_.features, std::move(members), edge, most);
    return ProposeTogether(members, edge, most);
  }

  Proposal Propose(const kernel::Features& features, std::vector<Shortlist::Member> members, double edge,
                   std::size_t most) const {
    Shortlist shortlist(problem_.kernel, features, std::move(members), factor_);
    Proposal proposal;
    while (proposal.rows.size() < most && shortlist.best()) {
      // If gains do not decrease, no gain outside will ever be above the threshold, and none inside below it.
      if (factor_ == 0 && !(shortlist.best()->gain > edge)) break;
      const Shortlist::Member& member = shortlist.member(shortlist.best()->index);
      proposal.positions.push_back(member.position);
      proposal.gains.push_back(shortlist.best()->gain);
      proposal.rows.push_back(member.row);
      shortlist.Choose();
    }
    return proposal;
  }

  /// The root proposes from the members of all ranks. The picks become guests of every rank.
  Proposal ProposeTogether(std::vector<Shortlist::Member> members, double edge, std::size_t most) const {
    const Communicator& peers = problem_.peers;
    RowList rows;
    for (Shortlist::Member& member : members) {
      rows.push_back(member.row);
      member.position += group_.first();
    }
    Matrix<double> features = kernel::GatherRows(peers, *problem_.features, rows);
    members = GatherValues(peers, std::move(members));
    Proposal proposal;
    std::vector<double> picked;
    if (peers.is_root()) {
      // The rows of the merged list, in the order of the rows of the pool.
      for (std::size_t i = 0; i < members.size(); ++i) members[i].row = static_cast<RowIndex>(i);
      const kernel::DenseFeatures merged(std::move(features), problem_.features->precision());
      proposal = Propose(merged, std::move(members), edge, most);
      for (const RowIndex row : proposal.rows) {
        picked.insert(picked.end(), merged.values().row(row).begin(), merged.values().row(row).end());
      }
    }
    BroadcastValues(peers, proposal.positions);
    BroadcastValues(peers, proposal.gains);
    BroadcastValues(peers, picked);
    proposal.rows =
        problem_.guests->Add(ConstMatrixView(picked.data(), proposal.positions.size(), problem_.features->dims()));
    return proposal;
  }

  /// Accepts a proposal up to the first pick that another candidate would have beaten.
  absl::Status Take(const Proposal& proposal) {
    std::size_t count = proposal.rows.size();
    if (factor_ > 0) {
      const Rivals rivals{rivals_, scores_.AtMost(), factor_, proposal.gains};
      FULCRUM_ASSIGN_OR_RETURN(count, sums_.AddUnbeaten(proposal.rows, rivals, problem_.peers));
    }
    for (std::size_t i = 0; i < count; ++i) Note(proposal.positions[i], proposal.gains[i]);
    picked_rows_.insert(picked_rows_.end(), proposal.rows.begin(),
                        proposal.rows.begin() + static_cast<std::ptrdiff_t>(count));
    if (!group_.is_alone()) problem_.guests->DropFrom(proposal.rows[0] + count);
    turn_ = count < proposal.rows.size() ? std::max(turn_ / 2, kFewestAtATurn) : std::min(turn_ * 2, kMostAtATurn);
    return absl::OkStatus();
  }

  void Note(std::size_t position, double gain) {
    // Sums of the shortlist and of all candidates round differently in float32, which must not make a gain increase.
    if (!result_.gains.empty()) gain = std::min(gain, result_.gains.back());
    value_ += gain;
    if (group_.IsOwn(position)) open_[position - group_.first()] = 0;
    result_.positions.push_back(position);
    result_.gains.push_back(gain);
  }

  /// Returns 1_S' K 1_S of the picks.
  absl::StatusOr<double> PairsOfPicks() const {
    SimilaritySums among_picks(problem_.kernel, *problem_.features, picked_rows_);
    FULCRUM_RETURN_IF_ERROR(among_picks.Add(picked_rows_));
    return std::accumulate(among_picks.values().begin(), among_picks.values().end(), 0.0);
  }

  /// submodular_greedy.h has the inequality; here all sums include all picks.
  absl::StatusOr<double> TangentBound() const {
    FULCRUM_ASSIGN_OR_RETURN(const double pairs, PairsOfPicks());
    const double gained = std::accumulate(result_.gains.begin(), result_.gains.end(), 0.0);
    std::vector<double> terms;
    for (std::size_t position = 0; position < open_.size(); ++position) {
      if (open_[position]) terms.push_back(GainOf(position) + 0.5 * factor_ * OwnSimilarity(position));
    }
    for (const std::size_t in_group : result_.positions) {
      if (!group_.IsOwn(in_group)) continue;
      const std::size_t position = in_group - group_.first();
      terms.push_back(GainOf(position) + 0.5 * factor_ * OwnSimilarity(position));
    }
    return value_ - gained + 0.5 * factor_ * pairs + SumOfLargest(group_.Largest(std::move(terms), batch_), batch_);
  }

  const StreamedProblem& problem_;
  const GroupPeers group_;
  SimilarityMemory nothing_remembered_;
  SimilaritySums sums_;
  GivenSums to_labeled_;  // for the next round
  SettledScores scores_;
  std::vector<std::uint8_t> open_;    // by position: unlabeled and not selected
  std::vector<std::uint8_t> rivals_;  // open positions outside the shortlist
  std::size_t batch_ = 0;
  double factor_ = 0;  // alpha / M
  double value_ = 0;
  std::size_t turn_ = kMostAtATurn;  // maximum number of picks that a shortlist may propose
  GreedyBatch result_;
  RowList picked_rows_;  // of the features, in the order of the picks
};

}  // namespace

absl::StatusOr<GreedyBatch> MaximizeStreamed(const StreamedProblem& problem) {
  return StreamedRun(problem).Run();
}

namespace {

// Two megabytes of features at 64 floats each: one thread's part of a matrix-vector product.
constexpr std::size_t kMembersPerBlock = 8192;

RowList RowsOf(const std::vector<Shortlist::Member>& members) {
  RowList rows;
  rows.reserve(members.size());
  for (const Shortlist::Member& member : members) rows.push_back(member.row);
  return rows;
}

}  // namespace

Shortlist::Shortlist(const kernel::KernelFunction& kernel, const kernel::Features& features,
                     std::vector<Member> members, double factor)
    : members_(std::move(members)),
      open_(members_.size(), 1),
      factor_(factor),
      columns_(kernel, features, RowsOf(members_)) {
  FindBest(std::nullopt);
}

double Shortlist::GainOf(const Member& member) const {
  return std::fma(-factor_, member.similarity, member.score + 1);
}

bool Shortlist::IsBetter(const Best& a, const Best& b) const {
  return GoesBefore(a.gain, members_[a.index].row, b.gain, members_[b.index].row);
}

std::optional<Shortlist::Best> Shortlist::SeeAndFindBest(std::size_t first, std::size_t count,
                                                         std::optional<RowIndex> chosen) {
  std::vector<float> similarity(chosen ? count : 0);
  if (chosen) columns_.WriteRow(*chosen, first, similarity);
  std::optional<Best> best;
  for (std::size_t i = 0; i < count; ++i) {
    Member& member = members_[first + i];
    if (chosen) member.similarity += static_cast<double>(std::max(similarity[i], 0.0F));
    if (!open_[first + i]) continue;
    const Best candidate{first + i, GainOf(member)};
    if (!best || IsBetter(candidate, *best)) best = candidate;
  }
  return best;
}

void Shortlist::FindBest(std::optional<RowIndex> chosen) {
  std::vector<std::optional<Best>> best_of_block(members_.size() / kMembersPerBlock + 1);
  ParallelForBlocks(members_.size(), kMembersPerBlock, [&](std::size_t first, std::size_t count) {
    best_of_block[first / kMembersPerBlock] = SeeAndFindBest(first, count, chosen);
  });
  best_ = std::nullopt;
  for (const std::optional<Best>& candidate : best_of_block) {
    if (candidate && (!best_ || IsBetter(*candidate, *best_))) best_ = candidate;
  }
}

void Shortlist::Choose() {
  open_[best_->index] = 0;
  FindBest(members_[best_->index].row);
}

}  // namespace fulcrum::select
