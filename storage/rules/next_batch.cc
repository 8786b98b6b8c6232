#include "storage/rules/next_batch.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "stages/consensus/consensus.h"
#include "storage/rules/stuck_items.h"

namespace fulcrum::storage {
namespace {

/// What a vote of nobody in particular would say about an item, with what is believed of it now.
double InformationOf(const consensus::AnnotatorModel& model, std::span<const double> belief) {
  return consensus::ExpectedInformation(model, model.annotators(), belief);
}

/// What the first votes on new items would say, on average.
double InformationOfNew(const CampaignSettings& settings, const consensus::AnnotatorModel& model, const Voices& voices,
                        const std::vector<std::string>& new_items) {
  double sum = 0;
  for (const std::string& item : new_items) {
    const consensus::ClassifierVoice voice = {VoiceOn(&voices, item), settings.classifier_weight};
    sum += InformationOf(model, consensus::ItemPosterior(model, {}, voice));
  }
  return new_items.empty() ? 0 : sum / static_cast<double>(new_items.size());
}

}  // namespace

std::vector<BatchedItem> VotedItems(const CampaignState& state) {
  const absl::flat_hash_set<std::string> streamed(state.offered().taken().begin(), state.offered().taken().end());
  std::vector<BatchedItem> voted;
  for (const Item& item : state.items().VotedInPool()) {
    if (!streamed.contains(item.id)) voted.push_back({.item = item.id, .cost = item.cost});
  }
  return voted;
}

std::vector<BatchedItem> DoubtfulItems(const CampaignState& state, const Voices& voices,
                                       const std::vector<std::string>& new_items, std::size_t most) {
  const CampaignSettings& settings = state.settings();
  const Crowd* const crowd = state.crowd();
  const bool adaptive = settings.consensus == CampaignSettings::Consensus::kDawidSkene && settings.confidence > 0;
  if (!adaptive || most == 0 || crowd == nullptr || crowd->model.classes != settings.classes.size()) return {};
  const absl::btree_set<std::string> known = KnownAnnotators(state);
  const double least = InformationOfNew(settings, crowd->model, voices, new_items);
  std::vector<std::pair<double, BatchedItem>> doubtful;
  state.items().Visit([&](const Item& item) {
    if (item.status != ItemStatus::kLabeled || !item.imported.empty()) return;
    const std::span<const double> voice = VoiceOn(&voices, item.id);
    if (JudgeByCrowd(item.votes, settings, crowd, voice).outcome != VoteOutcome::kUndecided) return;
    const double information = InformationOf(crowd->model, BeliefAbout(item.votes, settings, crowd, voice));
    const auto may_answer = [&](const std::string& who) { return state.MayAnswer(item, who); };
    if (information <= least || std::none_of(known.begin(), known.end(), may_answer)) return;
    doubtful.push_back({information, {.item = item.id, .cost = item.cost}});
  });
  // Visit has no order of its own.
  std::sort(doubtful.begin(), doubtful.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.item < b.second.item;
  });
  std::vector<BatchedItem> again;
  for (std::size_t i = 0; i < std::min(most, doubtful.size()); ++i) again.push_back(std::move(doubtful[i].second));
  return again;
}

}  // namespace fulcrum::storage
