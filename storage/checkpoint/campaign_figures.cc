// The figures of a state: in a checkpoint, and for those who watch a campaign.

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/state/campaign_state.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

std::string NumberText(double value) {
  std::string text;
  AppendNumber(value, text);
  return text;
}

/// Reads figures by name; remembers whether one was missing or not a number.
class FigureReader {
 public:
  explicit FigureReader(const std::map<std::string, std::string>& figures) : figures_(figures) {}

  std::string Text(const std::string& name) {
    const auto found = figures_.find(name);
    if (found == figures_.end()) Fail(name);
    return found == figures_.end() ? "" : found->second;
  }
  std::int64_t Integer(const std::string& name) {
    std::int64_t value = 0;
    if (!absl::SimpleAtoi(Text(name), &value)) Fail(name);
    return value;
  }
  std::uint64_t Hash(const std::string& name) {
    std::uint64_t value = 0;
    if (!absl::SimpleAtoi(Text(name), &value)) Fail(name);
    return value;
  }
  double Number(const std::string& name) {
    const auto value = ParseNumber(Text(name));
    if (!value) Fail(name);
    return value.value_or(0);
  }
  std::vector<std::vector<std::string>> Rows(const std::string& name) {
    const auto rows = JsonRows::Parse(Text(name));
    if (!rows.ok()) Fail(name);
    return rows.value_or(std::vector<std::vector<std::string>>());
  }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(const std::string& name) {
    status_ = absl::DataLossError(absl::StrCat("the figure '", name, "' of the checkpoint is missing or damaged"));
  }

  const std::map<std::string, std::string>& figures_;
  absl::Status status_;
};

absl::StatusOr<ItemSet::StatusCounts> ParseCounts(const std::vector<std::vector<std::string>>& rows) {
  ItemSet::StatusCounts counts = {};
  bool complete = rows.size() == 1 && rows[0].size() == counts.size();
  for (std::size_t i = 0; complete && i < counts.size(); ++i) complete = absl::SimpleAtoi(rows[0][i], &counts[i]);
  if (complete) return counts;
  return absl::DataLossError("the numbers of items in the checkpoint are damaged");
}

}  // namespace

std::map<std::string, std::string> CampaignState::Figures() const {
  const Totals& totals = figures_.totals;
  JsonRows appended;
  for (const AppendedRows& rows : figures_.appended) appended.Row().Add(rows.sequence).Add(rows.folder).Add(rows.rows);
  JsonRows open_items;
  if (!rounds_.open_items().empty()) open_items.Row();
  for (const std::string& item : rounds_.open_items()) open_items.Add(item);
  JsonRows counts;
  counts.Row();
  for (const std::int64_t count : items_.counts()) counts.Add(count);
  JsonRows annotators;
  for (const std::string& annotator : items_.annotators()) annotators.Row().Add(annotator);
  JsonRows paused;
  for (const auto& [who, reason] : figures_.paused) paused.Row().Add(who).Add(reason);
  JsonRows resumed;
  for (const std::string& who : figures_.resumed) resumed.Row().Add(who);
  JsonRows gold;
  if (!gold_.empty()) gold.Row();
  for (const std::string& item : gold_) gold.Add(item);
  const Crowd* const crowd = figures_.crowd.get();
  std::map<std::string, std::string> figures = {
      {"last_us", absl::StrCat(ToMicros(figures_.last_time))},
      {"last_labeling_us", absl::StrCat(ToMicros(figures_.last_labeling))},
      {"settings", SettingsToText(figures_.settings)},
      {"life", LifeName(figures_.life)},
      {"life_reason", figures_.life_reason},
      {"life_by", figures_.life_by},
      {"labels", absl::StrCat(totals.labels)},
      {"cost", NumberText(totals.cost)},
      {"label_budget", absl::StrCat(figures_.settings.label_budget)},
      {"cost_budget", NumberText(figures_.settings.cost_budget)},
      {"late_labels", absl::StrCat(totals.late_labels)},
      {"imported_labels", absl::StrCat(totals.imported)},
      {"skips", absl::StrCat(totals.skips)},
      {"expired_leases", absl::StrCat(totals.expired_leases)},
      {"retrain_requested", absl::StrCat(figures_.retrain_requested)},
      {"appended", appended.Take()},
      {"items", counts.Take()},
      {"last_label", absl::StrCat(items_.last_label_sequence())},
      {"annotators", annotators.Take()},
      {"rounds", absl::StrCat(rounds_.count())},
      {"last_round", rounds_.last() == nullptr ? "" : Describe(*rounds_.last())},
      {"open_items", open_items.Take()},
      {"open_slots", absl::StrCat(items_.open_slots())},
      {"live_leases", absl::StrCat(leases_.size())},
      {"models", absl::StrCat(rounds_.model_count())},
      {"requests", absl::StrCat(requests_.size())},
      {"last_request_high", absl::StrCat(requests_.last().first)},
      {"last_request_low", absl::StrCat(requests_.last().second)},
      {"crowd", crowd == nullptr ? "" : CrowdToText(*crowd)},
      {"crowd_sequence", absl::StrCat(crowd == nullptr ? 0 : crowd->sequence)},
      {"crowd_votes", absl::StrCat(crowd == nullptr ? 0 : crowd->votes)},
      {"paused", paused.Take()},
      {"resumed", resumed.Take()},
      {"gold", gold.Take()},
      {"activity", activity_.ToText()},
      {"work", activity_.WorkToText()}};
  // Only of campaigns that have one, so that the checkpoints of others are the same as ever.
  if (figures_.model_task) figures["model_task"] = ModelTaskText(*figures_.model_task);
  if (offered_.figures().last > 0) figures["offered"] = offered_.ToText();
  if (figures_.voices != nullptr) {
    figures["voices"] = VoicesToText(*figures_.voices);
    figures["voices_sequence"] = absl::StrCat(figures_.voices->sequence);
  }
  return figures;
}

absl::StatusOr<CampaignState> CampaignState::FromCheckpoint(Checkpoint& checkpoint) {
  FigureReader read(checkpoint.figures());
  CampaignState state;
  CampaignFigures& figures = state.figures_;
  figures.last_sequence = checkpoint.position().sequence;
  figures.last_time = FromMicros(read.Integer("last_us"));
  figures.last_labeling = FromMicros(read.Integer("last_labeling_us"));
  FULCRUM_ASSIGN_OR_RETURN(figures.settings, SettingsFromText(read.Text("settings")));
  FULCRUM_ASSIGN_OR_RETURN(figures.life, ParseLife(read.Text("life")));
  figures.life_reason = read.Text("life_reason");
  figures.life_by = read.Text("life_by");
  figures.totals = {.labels = read.Integer("labels"),
                    .cost = read.Number("cost"),
                    .late_labels = read.Integer("late_labels"),
                    .imported = read.Integer("imported_labels"),
                    .skips = read.Integer("skips"),
                    .expired_leases = read.Integer("expired_leases")};
  figures.retrain_requested = read.Integer("retrain_requested");
  for (const auto& cells : read.Rows("appended")) {
    AppendedRows rows;
    if (cells.size() != 3 || !absl::SimpleAtoi(cells[0], &rows.sequence) || !absl::SimpleAtoi(cells[2], &rows.rows)) {
      return absl::DataLossError("the list of appended rows in the checkpoint is damaged");
    }
    rows.folder = cells[1];
    figures.appended.push_back(std::move(rows));
  }
  if (checkpoint.figures().contains("model_task")) {
    FULCRUM_ASSIGN_OR_RETURN(figures.model_task, ParseModelTask(read.Text("model_task")));
  }
  if (checkpoint.figures().contains("offered")) {
    FULCRUM_ASSIGN_OR_RETURN(state.offered_, OfferedRows::FromText(read.Text("offered")));
  }
  if (const std::string text = read.Text("crowd"); !text.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(Crowd crowd, CrowdFromText(text));
    crowd.sequence = read.Integer("crowd_sequence");
    crowd.votes = read.Integer("crowd_votes");
    figures.crowd = std::make_shared<const Crowd>(std::move(crowd));
  }
  if (checkpoint.figures().contains("voices")) {
    FULCRUM_ASSIGN_OR_RETURN(Voices voices, VoicesFromText(read.Text("voices")));
    voices.sequence = read.Integer("voices_sequence");
    figures.voices = std::make_shared<const Voices>(std::move(voices));
  }
  for (auto& cells : read.Rows("paused")) {
    if (cells.size() == 2) figures.paused[cells[0]] = cells[1];
  }
  for (auto& cells : read.Rows("resumed")) figures.resumed.insert(cells.begin(), cells.end());
  FULCRUM_ASSIGN_OR_RETURN(state.activity_, ActivityTable::FromRows(read.Rows("activity")));
  FULCRUM_RETURN_IF_ERROR(state.activity_.ReadWork(read.Rows("work")));
  for (auto& cells : read.Rows("gold")) state.gold_ = std::move(cells);
  std::vector<std::string> open_items;
  for (auto& cells : read.Rows("open_items")) open_items = std::move(cells);
  ItemSet::Figures items{.last_label_sequence = read.Integer("last_label")};
  FULCRUM_ASSIGN_OR_RETURN(items.counts, ParseCounts(read.Rows("items")));
  std::vector<std::string> annotators;
  for (auto& cells : read.Rows("annotators")) annotators.insert(annotators.end(), cells.begin(), cells.end());
  state.items_.ReadFrom(checkpoint, items, annotators, state.leases_);
  state.rounds_.ReadFrom(checkpoint, read.Integer("rounds"), std::move(open_items), read.Integer("models"));
  state.requests_.ReadFrom(checkpoint, static_cast<std::size_t>(read.Integer("requests")),
                           {read.Hash("last_request_high"), read.Hash("last_request_low")});
  // Rows that are missing are not noticed otherwise.
  const Round* const last = state.rounds_.last();
  if (read.Text("last_round") != (last == nullptr ? "" : Describe(*last)) ||
      read.Integer("open_slots") != static_cast<std::int64_t>(state.items_.open_slots()) ||
      read.Integer("live_leases") != static_cast<std::int64_t>(state.leases_.size())) {
    return absl::DataLossError("the checkpoint lacks rows of the last round or of its items");
  }
  FULCRUM_RETURN_IF_ERROR(read.status());
  FULCRUM_RETURN_IF_ERROR(checkpoint.damage());
  return state;
}

absl::Status CampaignState::LoadAll(const Checkpoint& checkpoint) {
  items_.LoadAll();
  rounds_.LoadAll();
  requests_.LoadAll();
  return checkpoint.damage();
}

CampaignStatus StatusOf(const CampaignState& state) {
  CampaignStatus status = {.last_sequence = state.last_sequence(),
                           .last_time = state.last_time(),
                           .last_labeling = state.last_labeling(),
                           .life = state.life(),
                           .life_reason = state.life_reason(),
                           .life_by = state.life_by(),
                           .totals = state.totals(),
                           .live_leases = state.leases().size(),
                           .open_slots = state.items().open_slots(),
                           .touched_items = state.items().size(),
                           .items_by_status = state.items().counts(),
                           .leased_items = state.items().leased(),
                           .last_label_sequence = state.items().last_label_sequence(),
                           .next_expiry = state.leases().NextExpiry(),
                           .model_task = state.model_task(),
                           .offered = state.offered().figures()};
  if (const Crowd* const crowd = state.crowd()) {
    status.estimated_votes = crowd->votes;
    status.estimated_sequence = crowd->sequence;
  }
  if (const Round* const round = state.rounds().last()) {
    status.round = round->number;
    status.round_open = round->open;
    status.round_items = round->items;
    status.round_labeled = round->labeled;
    status.round_settled = round->settled();
    status.round_due = round->open && JudgeRound(state.Policy(), state.LastProgress(), state.last_time()).advance;
  }
  return status;
}

}  // namespace fulcrum::storage
