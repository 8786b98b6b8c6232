#include "storage/rules/annotator_rules.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

// New votes before the next estimate: at least so many, and at least this share of the votes before.
constexpr std::int64_t kFewestNewVotes = 20;
constexpr std::int64_t kNewVotesShare = 10;

/// Whether estimates are used for anything.
bool NeedsEstimates(const CampaignSettings& settings) {
  return settings.consensus == CampaignSettings::Consensus::kDawidSkene;
}

struct DatedVote {
  std::int64_t sequence;
  const std::string* annotator;
  std::uint32_t item;
  ClassIndex value;
};

ClassIndex IndexOf(const std::vector<std::string>& classes, const std::string& value) {
  const auto found = std::find(classes.begin(), classes.end(), value);
  return found == classes.end() ? kUnlabeled : static_cast<ClassIndex>(found - classes.begin());
}

/// Appends the pauses that follow from the estimate.
absl::Status PauseTheWorst(Ledger& ledger, const GatheredVotes& gathered, const consensus::Consensus& consensus,
                           std::vector<std::string>& paused) {
  const CampaignSettings settings = ledger.state().settings();
  if (settings.pause_below <= 0) return absl::OkStatus();
  const auto qualities = consensus::JudgeAnnotators(gathered.Problem(settings.classes.size()), consensus);
  for (std::size_t a = 0; a < qualities.size(); ++a) {
    const consensus::AnnotatorQuality& quality = qualities[a];
    if (static_cast<std::int64_t>(quality.votes) < settings.pause_votes) continue;
    if (!consensus::IsSurelyBelow(quality, settings.pause_below)) continue;
    const consensus::Interval interval = consensus::SureInterval(quality);
    const std::string& who = gathered.annotators[a];
    if (ledger.state().paused().contains(who) || ledger.state().resumed().contains(who)) continue;
    const std::string reason =
        absl::StrFormat("its accuracy is %.2f, between %.2f and %.2f, after %d votes, and at least %g is required",
                        quality.accuracy, interval.low, interval.high, quality.votes, settings.pause_below);
    FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = AnnotatorPaused{who, reason}}).status());
    paused.push_back(who);
  }
  return absl::OkStatus();
}

}  // namespace

GatheredVotes GatherVotes(const CampaignState& state, const std::vector<std::string>& classes) {
  std::vector<DatedVote> dated;
  std::vector<std::pair<std::string, ClassIndex>> items;
  std::map<std::string, std::uint32_t> annotators;  // its names do not move
  state.items().Visit([&](const Item& item) {
    bool any = false;
    for (const Vote& vote : item.votes) {
      const ClassIndex value = vote.withdrawn ? kUnlabeled : IndexOf(classes, vote.value);
      if (value == kUnlabeled) continue;
      const std::string& annotator = annotators.try_emplace(vote.annotator, 0).first->first;
      dated.push_back({vote.sequence, &annotator, static_cast<std::uint32_t>(items.size()), value});
      any = true;
    }
    if (any) items.emplace_back(item.id, item.imported.empty() ? kUnlabeled : IndexOf(classes, item.imported));
  });
  std::sort(dated.begin(), dated.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  GatheredVotes gathered;
  for (auto& [name, index] : annotators) {
    index = static_cast<std::uint32_t>(gathered.annotators.size());
    gathered.annotators.push_back(name);
  }
  constexpr std::uint32_t kNone = ~0u;
  std::vector<std::uint32_t> place(items.size(), kNone);
  for (const DatedVote& vote : dated) {
    if (place[vote.item] == kNone) {
      place[vote.item] = static_cast<std::uint32_t>(gathered.items.size());
      gathered.items.push_back(std::move(items[vote.item].first));
      gathered.known.push_back(items[vote.item].second);
    }
    gathered.votes.push_back({place[vote.item], annotators[*vote.annotator], vote.value});
  }
  return gathered;
}

consensus::Consensus EstimateFrom(const GatheredVotes& gathered, std::size_t classes, const Crowd* before) {
  const consensus::ConsensusProblem problem = gathered.Problem(classes);
  if (before == nullptr || before->model.classes != classes) return consensus::EstimateConsensus(problem);
  // The same annotators by their places now.
  consensus::AnnotatorModel start = before->model;
  start.accuracy.clear();
  start.confusion.clear();
  const std::size_t cells = classes * classes;
  for (const std::string& name : gathered.annotators) {
    const auto at = std::lower_bound(before->annotators.begin(), before->annotators.end(), name);
    const bool known = at != before->annotators.end() && *at == name;
    const auto index = static_cast<std::size_t>(at - before->annotators.begin());
    start.accuracy.push_back(known ? before->model.accuracy[index] : before->model.crowd_accuracy);
    for (std::size_t k = 0; k < cells; ++k) {
      start.confusion.push_back(
          before->model.Likelihood(known ? index : before->annotators.size(), k / classes, k % classes));
    }
  }
  return consensus::EstimateConsensus(problem, &start);
}

double LabelWeight(const CampaignState& state, const std::string& id) {
  if (!NeedsEstimates(state.settings())) return 1;
  const Item* const item = state.items().Find(id);
  if (item == nullptr || !item->imported.empty()) return 1;
  const std::optional<Opinion> opinion = OpinionOf(item->votes, state.settings(), state.crowd(), state.VoiceOn(id));
  return opinion ? opinion->confidence : 1;
}

absl::StatusOr<EstimateAnswer> EstimateAnnotators(Ledger& ledger, const EstimateRequest& /*request*/) {
  const CampaignState& state = ledger.state();
  const CampaignSettings& settings = state.settings();
  if (!NeedsEstimates(settings)) return EstimateAnswer{};
  if (state.crowd() != nullptr && state.items().last_label_sequence() <= state.crowd()->sequence) {
    return EstimateAnswer{};
  }
  const GatheredVotes gathered = GatherVotes(state, settings.classes);
  if (gathered.votes.empty()) return EstimateAnswer{};
  consensus::Consensus consensus = EstimateFrom(gathered, settings.classes.size(), state.crowd());
  Crowd crowd{.annotators = gathered.annotators, .model = consensus.model};
  FULCRUM_RETURN_IF_ERROR(
      ledger.Append({.body = AnnotatorsEstimated{state.totals().labels, CrowdToText(crowd)}}).status());
  EstimateAnswer answer{.estimated = true};
  FULCRUM_RETURN_IF_ERROR(PauseTheWorst(ledger, gathered, consensus, answer.paused));
  return answer;
}

absl::Status EstimateIfDue(Ledger& ledger) {
  const CampaignState& state = ledger.state();
  if (!NeedsEstimates(state.settings())) return absl::OkStatus();
  const std::int64_t before = state.crowd() == nullptr ? 0 : state.crowd()->votes;
  if (state.totals().labels - before < std::max(kFewestNewVotes, before / kNewVotesShare)) return absl::OkStatus();
  return EstimateAnnotators(ledger, {}).status();
}

namespace {

absl::Status CheckTexts(const AnnotatorRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  return request.reason.empty() ? absl::OkStatus() : CheckText("reason", request.reason);
}

}  // namespace

absl::StatusOr<std::int64_t> PauseAnnotator(Ledger& ledger, const AnnotatorRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckTexts(request));
  const std::int64_t fingerprint = Fingerprint({"pause annotator", request.annotator});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  if (ledger.state().paused().contains(request.annotator)) return 0;
  return ledger.Append(
      {.annotator = request.by,
       .request_id = request.request_id,
       .fingerprint = fingerprint,
       .body = AnnotatorPaused{request.annotator, request.reason.empty() ? "by an administrator" : request.reason}});
}

absl::StatusOr<std::int64_t> ResumeAnnotator(Ledger& ledger, const AnnotatorRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckTexts(request));
  const std::int64_t fingerprint = Fingerprint({"resume annotator", request.annotator});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  if (!ledger.state().paused().contains(request.annotator)) {
    return absl::NotFoundError(absl::StrCat("annotator '", request.annotator, "' is not paused"));
  }
  return ledger.Append({.annotator = request.by,
                        .request_id = request.request_id,
                        .fingerprint = fingerprint,
                        .body = AnnotatorResumed{request.annotator, request.reason}});
}

}  // namespace fulcrum::storage
