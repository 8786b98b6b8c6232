#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "pipeline/experiment/experiment_spec.h"
#include "stages/consensus/consensus.h"

namespace fulcrum::pipeline {
namespace {

// As in campaigns (storage/rules/annotator_rules.cc).
constexpr std::size_t kFewestNewVotes = 20;
constexpr std::size_t kNewVotesShare = 10;
constexpr std::size_t kVotesBeforePause = 20;
constexpr std::size_t kMoreVotesOnATie = 2;
constexpr double kTie = 1e-9;
// Standard deviation of the logarithm of an answer time.
constexpr double kTimeSpread = 0.5;

/// What a probability is above chance: 1 if it is certain. For two classes and a linear loss, a label with this weight
/// is both labels with their probabilities.
double ExcessOf(double probability, std::size_t classes) {
  // An example without any weight would still be one of its class.
  constexpr double kLeast = 0.02;
  const double chance = 1 / static_cast<double>(classes);
  return std::max((probability - chance) / (1 - chance), kLeast);
}

}  // namespace

std::vector<double> SimulatedCosts::Draw(std::size_t rows, std::uint64_t seed) const {
  // A stream of its own, so that costs do not depend on what else is drawn.
  constexpr std::uint64_t kCosts = 0xC057;
  Random random = Random::Fork(seed, kCosts);
  std::vector<double> costs(rows);
  for (double& cost : costs) cost = low * std::pow(high / low, random.Uniform());
  return costs;
}

std::string VotingRule::Describe() const {
  std::string text = absl::StrFormat("%d|%d|%d|%.17g|%d|%.17g|%.17g|carried", dawid_skene, overlap, max_votes,
                                     confidence, weights, pause_below, hears_classifier() ? classifier_weight : 0);
  if (adaptive() && first_confidence < confidence) absl::StrAppendFormat(&text, "|first %.17g", first_confidence);
  if (excess_weights) text.append("|excess");
  return text;
}

SimulatedCrowd::SimulatedCrowd(std::vector<SimulatedAnnotator> annotators, const VotingRule& rule,
                               std::size_t class_count, std::span<const ClassIndex> truth, std::uint64_t seed)
    : annotators_(std::move(annotators)),
      rule_(rule),
      classes_(class_count),
      truth_(truth),
      random_(seed),
      paused_(annotators_.size(), false),
      free_at_(annotators_.size(), 0) {
  for (const SimulatedAnnotator& annotator : annotators_) takes_time_ = takes_time_ || annotator.seconds > 0;
}

std::uint32_t SimulatedCrowd::ChooseAnnotator(const std::vector<std::uint32_t>& available) {
  const std::uint32_t any = available[random_.Below(available.size())];
  if (!takes_time_) return any;
  // Of those who are free at the same time any.
  std::uint32_t first = any;
  for (const std::uint32_t a : available) {
    if (free_at_[a] < free_at_[first]) first = a;
  }
  return first;
}

void SimulatedCrowd::SpendTime(std::uint32_t annotator) {
  if (!takes_time_) return;
  const double mean = annotators_[annotator].seconds;
  free_at_[annotator] += mean * std::exp(kTimeSpread * random_.Normal() - kTimeSpread * kTimeSpread / 2);
}

std::vector<double> SimulatedCrowd::PosteriorOf(RowIndex row, std::span<const consensus::ItemVote> votes) const {
  if (rule_.dawid_skene) {
    const bool heard = rule_.hears_classifier() && voice_.rows() > 0;
    return consensus::ItemPosterior(
        model_ ? *model_ : consensus::PriorModel(classes_), votes,
        {.probabilities = heard ? voice_.row(row) : std::span<const double>(), .weight = rule_.classifier_weight});
  }
  std::vector<double> shares(classes_, 0.0);
  for (const consensus::ItemVote& vote : votes) shares[vote.value] += 1;
  for (double& share : shares) share /= static_cast<double>(std::max<std::size_t>(votes.size(), 1));
  return shares;
}

SimulatedCrowd::Next SimulatedCrowd::NextFor(const Asked& asked, bool again) const {
  const bool adaptive = rule_.adaptive();
  const std::size_t wanted = adaptive ? 1 : rule_.overlap;
  if (asked.votes.size() < wanted) return Next::kAsk;
  std::vector<double> posterior = PosteriorOf(asked.row, asked.votes);
  std::ranges::sort(posterior, std::greater<>());
  const bool tied = posterior[0] - posterior[1] < kTie;
  const std::size_t most = adaptive ? rule_.max_votes : wanted + kMoreVotesOnATie;
  const double wanted_confidence = again ? rule_.confidence : std::min(rule_.first_confidence, rule_.confidence);
  const bool sure = !adaptive || posterior[0] >= wanted_confidence;
  if (asked.votes.size() < most && (tied || !sure)) return Next::kAsk;
  return tied ? Next::kDropped : Next::kDecided;
}

ClassIndex SimulatedCrowd::AnswerOf(std::size_t annotator, ClassIndex truth) {
  const SimulatedAnnotator& who = annotators_[annotator];
  if (who.spammer) return static_cast<ClassIndex>(random_.Below(classes_));
  if (random_.Uniform() < who.AccuracyOf(static_cast<std::size_t>(truth))) return truth;
  return static_cast<ClassIndex>((static_cast<std::size_t>(truth) + 1 + random_.Below(classes_ - 1)) % classes_);
}

bool SimulatedCrowd::AnybodyLeft(const Asked& asked) const {
  for (std::size_t a = 0; a < annotators_.size(); ++a) {
    if (!asked.unavailable[a] && !paused_[a]) return true;
  }
  return false;
}

std::vector<std::uint32_t> SimulatedCrowd::TakeDoubtful(std::span<const RowIndex> rows) {
  if (!rule_.adaptive() || !model_ || rows.empty() || voice_.rows() == 0) return {};
  // Of nobody in particular, whose accuracy is the usual one.
  const auto information = [&](RowIndex row, std::span<const consensus::ItemVote> votes) {
    return consensus::ExpectedInformation(*model_, model_->annotators(), PosteriorOf(row, votes));
  };
  double of_new = 0;
  for (const RowIndex row : rows) of_new += information(row, {}) / static_cast<double>(rows.size());
  std::vector<std::pair<double, std::uint32_t>> doubtful;
  for (const std::uint32_t item : decided_) {
    const Asked& asked = asked_[item];
    if (NextFor(asked, /*again=*/true) != Next::kAsk || !AnybodyLeft(asked)) continue;
    const double of_old = information(asked.row, asked.votes);
    if (of_old > of_new) doubtful.emplace_back(-of_old, item);
  }
  std::ranges::sort(doubtful);
  std::vector<std::uint32_t> items;
  for (const auto& [negative, item] : doubtful) {
    items.push_back(item);
    std::erase(decided_, item);
  }
  return items;
}

bool SimulatedCrowd::Vote(Asked& asked, std::uint32_t item) {
  while (true) {
    std::vector<std::uint32_t> available;
    for (std::uint32_t a = 0; a < annotators_.size(); ++a) {
      if (!asked.unavailable[a] && !paused_[a]) available.push_back(a);
    }
    if (available.empty()) return false;
    const std::uint32_t annotator = ChooseAnnotator(available);
    asked.unavailable[annotator] = true;
    SpendTime(annotator);
    if (random_.Uniform() < annotators_[annotator].skip) continue;
    const ClassIndex value = AnswerOf(annotator, truth_[asked.row]);
    asked.votes.push_back({annotator, static_cast<std::size_t>(value)});
    votes_.push_back({item, annotator, value});
    cost_ += annotators_[annotator].cost;
    return true;
  }
}

void SimulatedCrowd::Estimate() {
  estimated_votes_ = votes_.size();
  if (!rule_.dawid_skene || votes_.empty()) return;
  const consensus::ConsensusProblem problem = {
      .items = asked_.size(), .annotators = annotators_.size(), .classes = classes_, .votes = votes_};
  consensus::Consensus consensus = consensus::EstimateConsensus(problem, model_ ? &*model_ : nullptr);
  if (rule_.pause_below > 0) {
    const auto qualities = consensus::JudgeAnnotators(problem, consensus);
    for (std::size_t a = 0; a < qualities.size(); ++a) {
      const bool bad =
          qualities[a].votes >= kVotesBeforePause && consensus::IsSurelyBelow(qualities[a], rule_.pause_below);
      paused_[a] = paused_[a] || bad;
    }
  }
  model_ = std::move(consensus.model);
}

void SimulatedCrowd::Ask(std::span<const RowIndex> rows, std::size_t votes, std::span<ClassIndex> labels,
                         std::span<double> weights) {
  std::vector<std::uint32_t> queue = std::exchange(pending_, {});
  const std::vector<std::uint32_t> again = TakeDoubtful(rows);
  queue.insert(queue.end(), again.begin(), again.end());
  for (const std::uint32_t item : again) asked_[item].votes_before = asked_[item].votes.size();
  for (const RowIndex row : rows) {
    queue.push_back(static_cast<std::uint32_t>(asked_.size()));
    asked_.push_back({.row = row, .unavailable = std::vector<bool>(annotators_.size(), false)});
  }
  const std::size_t end = votes_.size() + votes;
  for (const std::uint32_t item : queue) {
    Asked& asked = asked_[item];
    const auto next_now = [&] {
      return NextFor(asked, asked.votes_before > 0 && asked.votes.size() == asked.votes_before);
    };
    Next next = next_now();
    bool available = true;
    while (next == Next::kAsk && votes_.size() < end && available) {
      available = Vote(asked, item);
      if (votes_.size() - estimated_votes_ >= std::max(kFewestNewVotes, estimated_votes_ / kNewVotesShare)) Estimate();
      next = next_now();
    }
    // With no annotator left to ask, votes that weigh differently decide as they are.
    const bool accepted = !available && rule_.dawid_skene && !asked.votes.empty();
    if (next == Next::kDecided || accepted) {
      decided_.push_back(item);
    } else if (next == Next::kAsk && available && !asked.votes.empty()) {
      pending_.push_back(item);
    }
  }
  if (votes_.size() > estimated_votes_) Estimate();
  for (const double free_at : free_at_) seconds_ = std::max(seconds_, free_at);
  std::ranges::fill(free_at_, seconds_);
  WriteLabels(labels, weights);
}

void SimulatedCrowd::AcceptVotes(std::span<ClassIndex> labels, std::span<double> weights) {
  if (!rule_.dawid_skene) return;
  for (const std::uint32_t item : std::exchange(pending_, {})) {
    std::vector<double> posterior = PosteriorOf(asked_[item].row, asked_[item].votes);
    std::ranges::sort(posterior, std::greater<>());
    if (posterior[0] - posterior[1] >= kTie) decided_.push_back(item);
  }
  WriteLabels(labels, weights);
}

void SimulatedCrowd::WriteLabels(std::span<ClassIndex> labels, std::span<double> weights) const {
  // A row that is asked about again has no label until it is decided.
  for (const std::uint32_t item : pending_) labels[asked_[item].row] = kUnlabeled;
  for (const std::uint32_t item : decided_) {
    const Asked& asked = asked_[item];
    const std::vector<double> posterior = PosteriorOf(asked.row, asked.votes);
    const auto best = std::ranges::max_element(posterior);
    labels[asked.row] = static_cast<ClassIndex>(best - posterior.begin());
    weights[asked.row] = 1;
    if (!rule_.dawid_skene || !rule_.weights) continue;
    weights[asked.row] = rule_.excess_weights ? ExcessOf(*best, classes_) : *best;
  }
}

RowList SimulatedCrowd::Undecided() const {
  std::vector<bool> done(asked_.size(), false);
  for (const std::uint32_t item : decided_) done[item] = true;
  RowList rows;
  for (std::size_t item = 0; item < asked_.size(); ++item) {
    if (!done[item] && !asked_[item].votes.empty()) rows.push_back(asked_[item].row);
  }
  std::ranges::sort(rows);
  return rows;
}

std::optional<double> SimulatedCrowd::LabelAccuracy(std::span<const ClassIndex> labels) const {
  if (decided_.empty()) return std::nullopt;
  double right = 0;
  for (const std::uint32_t item : decided_) right += labels[asked_[item].row] == truth_[asked_[item].row] ? 1 : 0;
  return right / static_cast<double>(decided_.size());
}

std::size_t SimulatedCrowd::CountPaused(bool spammers) const {
  std::size_t count = 0;
  for (std::size_t a = 0; a < paused_.size(); ++a) count += paused_[a] && annotators_[a].spammer == spammers ? 1 : 0;
  return count;
}

}  // namespace fulcrum::pipeline
