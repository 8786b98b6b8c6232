#include "storage/state/campaign_settings.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

constexpr absl::string_view kLearned = ", learned from earlier answers";

bool ShareReached(const RoundPolicy& policy, const RoundProgress& progress) {
  return static_cast<double>(progress.settled) >= policy.soft_share * static_cast<double>(progress.items);
}

}  // namespace

RoundVerdict JudgeRound(const RoundPolicy& policy, const RoundProgress& progress, Time now) {
  if (progress.settled >= progress.items) return {.advance = true, .reason = "all answered"};
  const Time soft_end = progress.started_at + policy.soft_time;
  const Time hard_end = progress.started_at + policy.hard_time;
  const bool has_soft = policy.soft_time.count() > 0;
  const bool has_hard = policy.hard_time.count() > 0;
  if (has_soft && now >= soft_end && ShareReached(policy, progress)) {
    return {.advance = true,
            .reason = absl::StrCat("soft time", policy.learn_soft ? kLearned : "", ": ", progress.settled, " of ",
                                   progress.items)};
  }
  if (has_hard && now >= hard_end && progress.labeled >= policy.hard_minimum) {
    return {.advance = true,
            .reason = absl::StrCat("hard time", policy.learn_hard ? kLearned : "", ": ", progress.labeled, " of ",
                                   progress.items)};
  }
  RoundVerdict verdict;
  if (has_soft && now < soft_end) verdict.look_again = soft_end;
  if (has_hard && now < hard_end) {
    verdict.look_again = verdict.look_again.has_value() ? std::min(*verdict.look_again, hard_end) : hard_end;
  }
  return verdict;
}

namespace {

constexpr absl::string_view kSpecification = "specification=";
constexpr absl::string_view kClass = "class=";
constexpr absl::string_view kAnnotator = "annotator=";  // cost, budget, name
constexpr absl::string_view kHourly = "hourly=";        // cost of an hour, name; only if it costs something

/// A number of the settings, under the name it has in the text.
struct Field {
  const char* name;
  std::function<double(const CampaignSettings&)> get;
  std::function<void(CampaignSettings&, double)> set;
  bool only_if_set = false;  ///< it is left out if it has its default, as in logs from before it existed
};

Field OnlyIfSet(Field field) {
  field.only_if_set = true;
  return field;
}

template <typename Member>
Field Number(const char* name, Member member) {
  return {name, [member](const CampaignSettings& s) { return static_cast<double>(member(s)); },
          [member](CampaignSettings& s, double value) {
            auto& target = member(s);
            using Target = std::remove_reference_t<decltype(target)>;
            if constexpr (std::is_enum_v<Target>) {
              target = static_cast<Target>(static_cast<std::int64_t>(value));
            } else {
              target = static_cast<Target>(value);
            }
          }};
}

template <typename Member>
Field Duration(const char* name, Member member) {
  return {name, [member](const CampaignSettings& s) { return static_cast<double>(member(s).count()); },
          [member](CampaignSettings& s, double value) {
            member(s) = std::chrono::milliseconds(static_cast<std::int64_t>(value));
          }};
}

// Counts and milliseconds are far below 2^53, so a double holds each of them exactly.
const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>{
      Number(
          "overlap", [](auto& s) -> auto& { return s.overlap; }),
      Number(
          "margin", [](auto& s) -> auto& { return s.margin; }),
      Number(
          "most_votes", [](auto& s) -> auto& { return s.most_votes; }),
      Duration(
          "lease_time_ms", [](auto& s) -> auto& { return s.lease_time; }),
      Number(
          "most_attempts", [](auto& s) -> auto& { return s.most_attempts; }),
      Duration(
          "dispute_time_ms", [](auto& s) -> auto& { return s.dispute_time; }),
      Number(
          "bad_item_reports", [](auto& s) -> auto& { return s.bad_item_reports; }),
      Number(
          "label_budget", [](auto& s) -> auto& { return s.label_budget; }),
      Number(
          "cost_budget", [](auto& s) -> auto& { return s.cost_budget; }),
      Duration(
          "soft_time_ms", [](auto& s) -> auto& { return s.policy.soft_time; }),
      Number(
          "soft_share", [](auto& s) -> auto& { return s.policy.soft_share; }),
      Duration(
          "hard_time_ms", [](auto& s) -> auto& { return s.policy.hard_time; }),
      Number(
          "hard_minimum", [](auto& s) -> auto& { return s.policy.hard_minimum; }),
      OnlyIfSet(Number(
          "learn_soft_time", [](auto& s) -> auto& { return s.policy.learn_soft; })),
      OnlyIfSet(Number(
          "learn_hard_time", [](auto& s) -> auto& { return s.policy.learn_hard; })),
      OnlyIfSet(Number(
          "consensus", [](auto& s) -> auto& { return s.consensus; })),
      OnlyIfSet(Number(
          "confidence", [](auto& s) -> auto& { return s.confidence; })),
      OnlyIfSet(Number(
          "first_confidence", [](auto& s) -> auto& { return s.first_confidence; })),
      OnlyIfSet(Number(
          "classifier_weight", [](auto& s) -> auto& { return s.classifier_weight; })),
      OnlyIfSet(Number(
          "gold_rate", [](auto& s) -> auto& { return s.gold_rate; })),
      OnlyIfSet(Number(
          "pause_below", [](auto& s) -> auto& { return s.pause_below; })),
      OnlyIfSet(Number(
          "pause_votes", [](auto& s) -> auto& { return s.pause_votes; })),
  };
  return *fields;
}

absl::Status SetField(absl::string_view line, CampaignSettings& settings) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits('=', 1));
  const auto value = ParseNumber(parts.second);
  for (const Field& field : Fields()) {
    if (parts.first != field.name || !value.has_value()) continue;
    field.set(settings, *value);
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("the campaign's settings have a line that this version does not understand: '", line,
                   "'; it was written by a newer version, or the log is damaged"));
}

absl::Status SetTerms(absl::string_view line, CampaignSettings& settings) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  const auto cost = ParseNumber(parts[0]);
  const auto budget = parts.size() == 3 ? ParseNumber(parts[1]) : std::nullopt;
  if (!cost || !budget) return absl::DataLossError("the terms of an annotator in the settings are damaged");
  settings.annotators[std::string(parts[2])] = {.cost = *cost, .budget = *budget};
  return absl::OkStatus();
}

absl::Status SetHourlyCost(absl::string_view line, CampaignSettings& settings) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const auto cost = ParseNumber(parts.first);
  if (!cost) return absl::DataLossError("the hourly cost of an annotator in the settings is damaged");
  settings.annotators[std::string(parts.second)].hourly_cost = *cost;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSettings(const CampaignSettings& settings) {
  std::vector<std::string> wrong;
  const auto at_least = [&](absl::string_view name, double value, double least) {
    if (!(value >= least)) wrong.push_back(absl::StrCat(name, " is ", value, " but must be at least ", least));
  };
  at_least("overlap", static_cast<double>(settings.overlap), 1);
  at_least("margin", static_cast<double>(settings.margin), 1);
  at_least("most_votes", static_cast<double>(settings.most_votes), static_cast<double>(settings.overlap));
  at_least("lease_time (ms)", static_cast<double>(settings.lease_time.count()), 1);
  at_least("most_attempts", static_cast<double>(settings.most_attempts), 1);
  at_least("dispute_time (ms)", static_cast<double>(settings.dispute_time.count()), 1);
  at_least("bad_item_reports", static_cast<double>(settings.bad_item_reports), 1);
  at_least("label_budget", static_cast<double>(settings.label_budget), 0);
  at_least("cost_budget", settings.cost_budget, 0);
  at_least("soft_time (ms)", static_cast<double>(settings.policy.soft_time.count()), 0);
  at_least("hard_time (ms)", static_cast<double>(settings.policy.hard_time.count()), 0);
  at_least("hard_minimum", static_cast<double>(settings.policy.hard_minimum), 1);
  if (!(settings.policy.soft_share > 0 && settings.policy.soft_share <= 1)) {
    wrong.push_back(absl::StrCat("soft_share is ", settings.policy.soft_share, " but must be above 0 and at most 1"));
  }
  at_least("confidence", settings.confidence, 0);
  at_least("first_confidence", settings.first_confidence, 0);
  if (settings.first_confidence > settings.confidence) {
    wrong.push_back(absl::StrCat("first_confidence is ", settings.first_confidence,
                                 " but must be at most confidence, which is ", settings.confidence));
  }
  at_least("gold_rate", settings.gold_rate, 0);
  at_least("pause_below", settings.pause_below, 0);
  for (const auto& [name, terms] : settings.annotators) {
    at_least(absl::StrCat("the cost of '", name, "'"), terms.cost, 0);
    at_least(absl::StrCat("the budget of '", name, "'"), terms.budget, 0);
    at_least(absl::StrCat("the hourly cost of '", name, "'"), terms.hourly_cost, 0);
    if (name.empty() || name.find('\n') != std::string::npos) wrong.push_back("the name of an annotator is not valid");
  }
  at_least("classifier_weight", settings.classifier_weight, 0);
  if (settings.classifier_weight > 1) {
    wrong.push_back(absl::StrCat("classifier_weight is ", settings.classifier_weight, " but must be at most 1"));
  }
  at_least("pause_votes", static_cast<double>(settings.pause_votes), 1);
  for (const auto& [name, share] : {std::pair("confidence", settings.confidence), {"gold_rate", settings.gold_rate}}) {
    if (share >= 1) wrong.push_back(absl::StrCat(name, " is ", share, " but must be below 1"));
  }
  if (settings.consensus == CampaignSettings::Consensus::kDawidSkene && settings.classes.size() < 2) {
    wrong.push_back("the consensus needs the names of at least two classes");
  }
  if (settings.margin > settings.overlap) {
    wrong.push_back(absl::StrCat("margin is ", settings.margin, " but ", settings.overlap,
                                 " votes (overlap) can never lead by so many"));
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("impossible campaign settings: ", absl::StrJoin(wrong, "; ")));
}

std::string SettingsToText(const CampaignSettings& settings) {
  std::string text;
  static const CampaignSettings* const defaults = new CampaignSettings();
  for (const Field& field : Fields()) {
    if (field.only_if_set && field.get(settings) == field.get(*defaults)) continue;
    absl::StrAppend(&text, field.name, "=");
    AppendNumber(field.get(settings), text);
    text.push_back('\n');
  }
  for (const std::string& name : settings.classes) absl::StrAppend(&text, kClass, name, "\n");
  for (const auto& [name, terms] : settings.annotators) {
    absl::StrAppend(&text, kAnnotator);
    AppendNumber(terms.cost, text);
    text.push_back(' ');
    AppendNumber(terms.budget, text);
    absl::StrAppend(&text, " ", name, "\n");
    if (terms.hourly_cost == 0) continue;
    absl::StrAppend(&text, kHourly);
    AppendNumber(terms.hourly_cost, text);
    absl::StrAppend(&text, " ", name, "\n");
  }
  absl::StrAppend(&text, kSpecification, settings.specification);
  return text;
}

absl::StatusOr<CampaignSettings> SettingsFromText(absl::string_view text) {
  CampaignSettings settings;
  while (!text.empty()) {
    if (absl::ConsumePrefix(&text, kSpecification)) {
      settings.specification = std::string(text);
      return settings;
    }
    const std::size_t end = text.find('\n');
    absl::string_view line = text.substr(0, end);
    if (absl::ConsumePrefix(&line, kClass)) {
      settings.classes.emplace_back(line);
    } else if (absl::ConsumePrefix(&line, kAnnotator)) {
      FULCRUM_RETURN_IF_ERROR(SetTerms(line, settings));
    } else if (absl::ConsumePrefix(&line, kHourly)) {
      FULCRUM_RETURN_IF_ERROR(SetHourlyCost(line, settings));
    } else {
      FULCRUM_RETURN_IF_ERROR(SetField(line, settings));
    }
    text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
  }
  return absl::DataLossError("the campaign's settings end early; the log is damaged");
}

}  // namespace fulcrum::storage
