#include "storage/rules/round_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stages/consensus/consensus.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/stuck_items.h"

namespace fulcrum::storage {
namespace {

std::int64_t FingerprintOf(const CommitBatchRequest& request) {
  std::string content;
  for (const BatchedItem& item : request.again) absl::StrAppend(&content, "again ", Fingerprint({item.item}), ",");
  for (const BatchedItem& item : request.items) {
    absl::StrAppend(&content, Fingerprint({item.item, absl::StrCat(item.cost)}), ",");
  }
  return Fingerprint({"batch", absl::StrCat(request.round), absl::StrCat(request.based_on), content});
}

/// A round's number is its request id: committing it twice takes effect once.
std::string RequestIdOf(std::int64_t round) {
  return absl::StrCat("round ", round);
}

absl::Status CheckAgain(const CampaignState& state, const std::vector<BatchedItem>& again) {
  for (const BatchedItem& batched : again) {
    const Item* const item = state.items().Find(batched.item);
    if (item != nullptr && item->status == ItemStatus::kLabeled && item->imported.empty()) continue;
    return absl::AbortedError(absl::StrCat("item '", batched.item, "' has no label by votes any more"));
  }
  return absl::OkStatus();
}

absl::Status CheckItems(const CampaignState& state, const std::vector<BatchedItem>& items) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const BatchedItem& batched : items) {
    FULCRUM_RETURN_IF_ERROR(CheckText("item", batched.item));
    if (!(std::isfinite(batched.cost) && batched.cost >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a label of item '", batched.item, "' cannot cost ", batched.cost));
    }
    if (!seen.insert(batched.item).second) {
      return absl::InvalidArgumentError(absl::StrCat("item '", batched.item, "' is in the batch twice"));
    }
    const Item* const item = state.items().Find(batched.item);
    if (item == nullptr || item->status == ItemStatus::kInPool) continue;
    // A label can arrive late, while the batch is computed. The caller computes the batch again.
    return absl::AbortedError(
        absl::StrCat("item '", batched.item, "' cannot be batched: it is ", ItemStatusName(item->status)));
  }
  return absl::OkStatus();
}

absl::Status CheckRound(const CampaignState& state, const CommitBatchRequest& request) {
  if (request.only_if_running && state.life() != Life::kRunning) {
    return absl::AbortedError(absl::StrCat("the campaign is ", LifeName(state.life()), " by now"));
  }
  if (state.life() == Life::kDone) {
    return absl::FailedPreconditionError("the campaign is done and takes no more batches");
  }
  if (const Round* const open = state.rounds().open()) {
    return absl::FailedPreconditionError(absl::StrCat("round ", open->number, " is still open"));
  }
  const std::int64_t next = state.rounds().count() + 1;
  if (request.round != next) {
    return absl::InvalidArgumentError(absl::StrCat("the next round is ", next, ", not ", request.round));
  }
  if (request.based_on < 0 || request.based_on > state.last_sequence()) {
    return absl::InvalidArgumentError(absl::StrCat("a batch cannot be based on event ", request.based_on,
                                                   "; the log ends with ", state.last_sequence()));
  }
  return absl::OkStatus();
}

/// Items that come before those of the batch, except for those that the batch has anyway.
struct CarriedItems {
  std::vector<BatchedItem> voted = {};
  std::vector<BatchedItem> streamed = {};  ///< that a stream brought

  bool empty() const { return voted.empty() && streamed.empty(); }
};

CarriedItems ItemsBefore(const CampaignState& state, const CommitBatchRequest& request) {
  CarriedItems carried;
  absl::flat_hash_set<std::string> seen;
  for (const BatchedItem& item : request.items) seen.insert(item.item);
  const std::size_t places = request.places > 0 ? static_cast<std::size_t>(request.places) : state.items().size();
  for (BatchedItem& item : VotedItems(state)) {
    if (carried.voted.size() >= places) break;
    if (seen.insert(item.item).second) carried.voted.push_back(std::move(item));
  }
  for (const std::string& id : state.offered().taken()) {
    const Item* const item = state.items().Find(id);
    const bool waits = item != nullptr && item->status == ItemStatus::kInPool;
    if (waits && seen.insert(id).second) carried.streamed.push_back({.item = id, .cost = item->cost});
  }
  return carried;
}

absl::StatusOr<const Item*> RequireItem(const Ledger& ledger, const ItemRequest& request) {
  const Item* const item = ledger.state().items().Find(request.item);
  if (item != nullptr) return item;
  return absl::NotFoundError(absl::StrCat("the campaign never had an item '", request.item, "' in a batch"));
}

}  // namespace

absl::StatusOr<CommitBatchAnswer> CommitBatch(Ledger& ledger, const CommitBatchRequest& request) {
  const std::string request_id = RequestIdOf(request.round);
  const std::int64_t fingerprint = FingerprintOf(request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindRepeated(ledger, {"", request_id, fingerprint}));
  if (repeated.has_value()) return CommitBatchAnswer{repeated->sequence, true};
  FULCRUM_RETURN_IF_ERROR(CheckRound(ledger.state(), request));
  FULCRUM_RETURN_IF_ERROR(CheckItems(ledger.state(), request.items));
  FULCRUM_RETURN_IF_ERROR(CheckAgain(ledger.state(), request.again));
  const bool nothing_new = request.items.empty() && request.again.empty();
  if (nothing_new && ItemsBefore(ledger.state(), request).empty()) {
    // What was to be continued can have been decided while the batch was computed.
    return request.places > 0 ? absl::AbortedError("the items that the batch was to continue are decided by now")
                              : absl::InvalidArgumentError("a batch needs at least one item");
  }
  // What the classifier says may decide items that would come first, but not all of a batch without new ones.
  if (!nothing_new && !request.voices.probabilities.empty()) {
    const ClassifierHeard heard{request.round, VoicesToText(request.voices)};
    FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = heard}).status());
  }
  // They come first: otherwise rounds that end with as many answers as their batch has items would never get to them.
  const CarriedItems carried = ItemsBefore(ledger.state(), request);
  FULCRUM_ASSIGN_OR_RETURN(
      const std::int64_t sequence,
      ledger.Append({.request_id = request_id,
                     .fingerprint = fingerprint,
                     .body = BatchCommitted{.round = request.round,
                                            .based_on = request.based_on,
                                            .files = absl::StrJoin(request.files, "\n"),
                                            .carried = static_cast<std::int64_t>(carried.streamed.size())}}));
  std::int64_t rank = 0;
  for (const auto* const items : {&carried.voted, &carried.streamed, &request.again, &request.items}) {
    for (const BatchedItem& item : *items) {
      FULCRUM_RETURN_IF_ERROR(
          ledger.Append({.body = ItemBatched{item.item, request.round, ++rank, item.cost}}).status());
    }
  }
  return CommitBatchAnswer{sequence, false};
}

absl::StatusOr<AdvanceAnswer> AdvanceRound(Ledger& ledger, const AdvanceRequest& request) {
  const Round* const round = ledger.state().rounds().Find(request.round);
  if (round == nullptr) return absl::NotFoundError(absl::StrCat("there is no round ", request.round));
  if (!round->open) return AdvanceAnswer{true, round->reason, {}};
  RoundVerdict verdict = JudgeRound(ledger.state().Policy(), ledger.state().LastProgress(), ledger.Now());
  if (!verdict.advance && !request.forced.empty()) verdict = {.advance = true, .reason = request.forced};
  if (!verdict.advance) return AdvanceAnswer{false, "", verdict.look_again};
  // Items that nobody else can answer would have a place in every batch from now on.
  FULCRUM_RETURN_IF_ERROR(SettleStuckItems(ledger, {}).status());
  FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = RoundClosed{request.round, verdict.reason}}).status());
  return AdvanceAnswer{true, verdict.reason, {}};
}

absl::StatusOr<std::int64_t> RecordModel(Ledger& ledger, const RecordModelRequest& request) {
  if (request.trained_on < 0 || request.trained_on > ledger.state().last_sequence()) {
    return absl::InvalidArgumentError(absl::StrCat("a model cannot be trained on event ", request.trained_on,
                                                   "; the log ends with ", ledger.state().last_sequence()));
  }
  return ledger.Append({.body = ModelStored{.round = request.round,
                                            .trained_on = request.trained_on,
                                            .file = request.file,
                                            .checksum = request.checksum,
                                            .record = request.record}});
}

absl::StatusOr<std::int64_t> RequestRetrain(Ledger& ledger, const RetrainRequest& request) {
  const std::int64_t fingerprint = Fingerprint({"retrain"});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  return ledger.Append({.annotator = request.by,
                        .request_id = request.request_id,
                        .fingerprint = fingerprint,
                        .body = RetrainRequested{}});
}

absl::StatusOr<StoredModel> FindModel(Ledger& ledger, const FindModelRequest& request) {
  const RoundTable& rounds = ledger.state().rounds();
  if (const StoredModel* const model = rounds.FindModel(request.round)) return *model;
  const StoredModel* const last = rounds.FindModel(0);
  if (last == nullptr) {
    return absl::NotFoundError("no model is trained yet; the first one is trained when two classes have labels");
  }
  return absl::NotFoundError(absl::StrCat("no model was trained in round ", request.round, "; there are models of ",
                                          rounds.model_count(), " rounds, the last is of round ", last->round));
}

absl::StatusOr<std::vector<StoredModel>> ListModels(Ledger& ledger, const ListModelsRequest& /*request*/) {
  std::vector<StoredModel> models;
  ledger.state().rounds().VisitModels([&](const StoredModel& model) { models.push_back(model); });
  return models;
}

absl::StatusOr<std::int64_t> ChangeSettings(Ledger& ledger, const SettingsRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckSettings(request.settings));
  return ledger.Append({.body = SettingsChanged{SettingsToText(request.settings)}});
}

namespace {

std::int64_t FingerprintOf(const UpdateRequest& request) {
  return Fingerprint({"update", request.asked});
}

}  // namespace

absl::StatusOr<std::optional<UpdateAnswer>> FindUpdate(Ledger& ledger, const UpdateRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, FingerprintOf(request)}));
  if (!repeated.has_value()) return std::nullopt;
  return UpdateAnswer{.sequence = repeated->sequence};
}

absl::StatusOr<UpdateAnswer> UpdateSettings(Ledger& ledger, const UpdateRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckSettings(request.settings));
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindUpdate(ledger, request));
  if (repeated) return *repeated;
  // One that was stopped stays stopped.
  const bool continued = request.goes_on && ledger.state().life() == Life::kDone && ledger.state().life_by().empty();
  UpdateAnswer answer{.continued = continued};
  FULCRUM_ASSIGN_OR_RETURN(answer.sequence, ledger.Append({.annotator = request.by,
                                                           .request_id = request.request_id,
                                                           .fingerprint = FingerprintOf(request),
                                                           .body = SettingsChanged{SettingsToText(request.settings)}}));
  if (!continued) return answer;
  FULCRUM_RETURN_IF_ERROR(
      ledger.Append({.annotator = request.by, .body = LifeChanged{LifeName(Life::kRunning), kContinued}}).status());
  return answer;
}

absl::StatusOr<std::int64_t> ChangeLife(Ledger& ledger, const LifeRequest& request) {
  const std::int64_t fingerprint = Fingerprint({"life", LifeName(request.life)});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  const Life now = ledger.state().life();
  if (now == request.life) return 0;
  if (!request.decided_under.empty() && request.decided_under != ledger.state().settings().specification) {
    return absl::AbortedError("the campaign's specification was changed meanwhile");
  }
  const auto& from = request.from;
  const bool expected = from.empty() || std::find(from.begin(), from.end(), now) != from.end();
  if (!expected || !MayFollow(now, request.life)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the campaign is ", LifeName(now), " and cannot become ", LifeName(request.life)));
  }
  if (request.life == Life::kDone) FULCRUM_RETURN_IF_ERROR(AcceptVotes(ledger, {}).status());
  return ledger.Append({.annotator = request.by,
                        .request_id = request.request_id,
                        .fingerprint = fingerprint,
                        .body = LifeChanged{LifeName(request.life), request.reason}});
}

absl::StatusOr<std::int64_t> SetItemAside(Ledger& ledger, const ItemRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const Item* const item, RequireItem(ledger, request));
  if (item->status == ItemStatus::kLabeled) {
    return absl::FailedPreconditionError(
        absl::StrCat("item '", request.item, "' is labeled; withdraw the label first"));
  }
  return ledger.Append({.annotator = request.by, .body = ItemSetAside{request.item, request.reason}});
}

absl::StatusOr<std::int64_t> ReturnItem(Ledger& ledger, const ItemRequest& request) {
  const std::int64_t fingerprint = Fingerprint({"return", request.item});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.by, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  FULCRUM_ASSIGN_OR_RETURN(const Item* const item, RequireItem(ledger, request));
  if (item->status != ItemStatus::kSetAside && item->status != ItemStatus::kDisputed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "item '", request.item, "' is neither set aside nor disputed: it is ", ItemStatusName(item->status)));
  }
  if (JudgeVotes(item->votes, ledger.state().settings(), ledger.state().crowd(), ledger.state().VoiceOn(request.item))
          .outcome == VoteOutcome::kDisputed) {
    return absl::FailedPreconditionError(
        absl::StrCat("item '", request.item, "' has as many votes as it can have; decide it instead"));
  }
  return ledger.Append({.annotator = request.by,
                        .request_id = request.request_id,
                        .fingerprint = fingerprint,
                        .body = ItemReturned{request.item, request.reason}});
}

absl::StatusOr<std::int64_t> ResolveItem(Ledger& ledger, const ResolveRequest& request) {
  const ItemRequest& item = request.item;
  FULCRUM_RETURN_IF_ERROR(CheckText("item", item.item));
  FULCRUM_RETURN_IF_ERROR(CheckText("label", request.value));
  const std::int64_t fingerprint = Fingerprint({"resolve", item.item, request.value});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindRepeatedIfNamed(ledger, {item.by, item.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  return ledger.Append({.annotator = item.by,
                        .request_id = item.request_id,
                        .fingerprint = fingerprint,
                        .body = ItemResolved{item.item, request.value, item.reason}});
}

namespace {

std::int64_t FingerprintOf(const AppendRowsRequest& request) {
  return Fingerprint({"append", request.content});
}

}  // namespace

absl::StatusOr<std::optional<std::string>> FindAppendAnswer(Ledger& ledger, const AppendRowsRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("name of who appends", request.by));
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.by, request.request_id, FingerprintOf(request)}));
  if (!repeated.has_value()) return std::nullopt;
  const auto* const appended = std::get_if<RowsAppended>(&repeated->body);
  return appended == nullptr ? std::string() : appended->answer;
}

absl::StatusOr<std::string> AppendRows(Ledger& ledger, const AppendRowsRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const auto answered, FindAppendAnswer(ledger, request));
  if (answered) return *answered;
  FULCRUM_RETURN_IF_ERROR(ledger
                              .Append({.annotator = request.by,
                                       .request_id = request.request_id,
                                       .fingerprint = FingerprintOf(request),
                                       .body = RowsAppended{request.rows, request.folder, request.answer}})
                              .status());
  return request.answer;
}

absl::StatusOr<std::vector<AppendedRows>> AppendedSoFar(Ledger& ledger, const AppendedSoFarRequest& /*request*/) {
  return ledger.state().appended();
}

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
    if (JudgeByCrowd(item.votes, settings, crowd, voice, /*again=*/true).outcome != VoteOutcome::kUndecided) return;
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
