#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/consensus/consensus.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_source.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/annotator_rules.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kPage = 1000;

struct NamedKind {
  EventKind kind;
  const char* name;
};
constexpr NamedKind kLabelKinds[] = {{EventKind::kLabelSubmitted, "label"},
                                     {EventKind::kLabelChanged, "change"},
                                     {EventKind::kLabelWithdrawn, "withdrawal"},
                                     {EventKind::kLabelImported, "import"},
                                     {EventKind::kItemResolved, "resolution"}};

constexpr const char* kExportColumns[] = {
    "sequence",           "kind",     "id",         "label",    "annotator", "time",
    "lease_id",           "epoch",    "slot",       "round",    "cost",      "late",
    "request_id",         "counts",   "item_state", "decision", "agreement", "confidence",
    "annotator_accuracy", "suggested"};

template <typename Builder, typename Value>
arrow::Result<std::shared_ptr<arrow::Array>> Column(const std::vector<ExportedLabel>& labels, Builder builder,
                                                    const Value& value) {
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<std::int64_t>(labels.size())));
  for (const ExportedLabel& label : labels) ARROW_RETURN_NOT_OK(builder.Append(value(label)));
  return builder.Finish();
}

using Label = const ExportedLabel&;

arrow::Result<std::vector<std::shared_ptr<arrow::Array>>> Columns(const std::vector<ExportedLabel>& labels) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  const auto whole = [&](auto value) -> arrow::Status {
    return Column(labels, arrow::Int64Builder(), value).Value(&columns.emplace_back());
  };
  const auto text = [&](auto value) -> arrow::Status {
    return Column(labels, arrow::StringBuilder(), value).Value(&columns.emplace_back());
  };
  const auto flag = [&](auto value) -> arrow::Status {
    return Column(labels, arrow::BooleanBuilder(), value).Value(&columns.emplace_back());
  };
  ARROW_RETURN_NOT_OK(whole([](Label l) { return l.event.sequence; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return std::string(LabelKindName(l.event.kind)); }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.event.item; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.event.value; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.event.annotator; }));
  const auto utc = arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  ARROW_RETURN_NOT_OK(Column(labels, arrow::TimestampBuilder(utc, arrow::default_memory_pool()), [](Label l) {
                        return ToMicros(l.event.at);
                      }).Value(&columns.emplace_back()));
  ARROW_RETURN_NOT_OK(whole([](Label l) { return l.event.lease; }));
  ARROW_RETURN_NOT_OK(whole([](Label l) { return l.event.epoch; }));
  ARROW_RETURN_NOT_OK(whole([](Label l) { return l.event.slot; }));
  ARROW_RETURN_NOT_OK(whole([](Label l) { return l.event.round; }));
  ARROW_RETURN_NOT_OK(
      Column(labels, arrow::DoubleBuilder(), [](Label l) { return l.event.cost; }).Value(&columns.emplace_back()));
  ARROW_RETURN_NOT_OK(flag([](Label l) { return l.late; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.event.request_id; }));
  ARROW_RETURN_NOT_OK(flag([](Label l) { return l.counts; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.item_status; }));
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.decision; }));
  for (const auto member :
       {&ExportedLabel::agreement, &ExportedLabel::confidence, &ExportedLabel::annotator_accuracy}) {
    arrow::DoubleBuilder numbers;
    for (Label label : labels) {
      const std::optional<double>& number = label.*member;
      ARROW_RETURN_NOT_OK(number ? numbers.Append(*number) : numbers.AppendNull());
    }
    ARROW_RETURN_NOT_OK(numbers.Finish().Value(&columns.emplace_back()));
  }
  ARROW_RETURN_NOT_OK(text([](Label l) { return l.suggested; }));
  return columns;
}

}  // namespace

const char* LabelKindName(EventKind kind) {
  for (const NamedKind& entry : kLabelKinds) {
    if (entry.kind == kind) return entry.name;
  }
  return nullptr;
}

absl::StatusOr<EventKind> ParseLabelKind(absl::string_view name) {
  for (const NamedKind& entry : kLabelKinds) {
    if (name == entry.name) return entry.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no kind of label '", name, "'"));
}

std::optional<double> AgreementOf(const Item& item) {
  absl::flat_hash_map<absl::string_view, int> counts;
  int votes = 0;
  int most = 0;
  for (const Vote& vote : item.votes) {
    if (vote.withdrawn) continue;
    ++votes;
    most = std::max(most, ++counts[vote.value]);
  }
  if (votes == 0) return std::nullopt;
  return static_cast<double>(most) / votes;
}

namespace {

std::optional<double> ConfidenceOf(const Item& item, const CampaignState& state) {
  if (item.status != ItemStatus::kLabeled) return std::nullopt;
  if (!item.imported.empty()) return 1;
  const std::optional<Opinion> opinion = OpinionOf(item.votes, state.settings(), state.crowd(), state.VoiceOn(item.id));
  return opinion ? std::optional(opinion->confidence) : std::nullopt;
}

std::optional<double> AccuracyOf(const std::string& annotator, const Crowd* crowd) {
  if (crowd == nullptr) return std::nullopt;
  const auto found = std::lower_bound(crowd->annotators.begin(), crowd->annotators.end(), annotator);
  if (found == crowd->annotators.end() || *found != annotator) return std::nullopt;
  return crowd->model.accuracy[static_cast<std::size_t>(found - crowd->annotators.begin())];
}

}  // namespace

LikelyErrors FindLikelyErrors(const CampaignState& state) {
  LikelyErrors errors;
  const std::vector<std::string>& classes = state.settings().classes;
  if (state.voices() == nullptr || classes.size() < 2) return errors;
  std::vector<std::string> items;
  std::vector<ClassIndex> labels;
  std::vector<double> probabilities;
  state.items().Visit([&](const Item& item) {
    if (item.status != ItemStatus::kLabeled || !item.imported.empty()) return;
    const std::span<const double> voice = state.VoiceOn(item.id);
    const auto found = std::find(classes.begin(), classes.end(), item.value);
    if (voice.size() != classes.size() || found == classes.end()) return;
    items.push_back(item.id);
    labels.push_back(static_cast<ClassIndex>(found - classes.begin()));
    probabilities.insert(probabilities.end(), voice.begin(), voice.end());
  });
  const ConstMatrixView view(probabilities.data(), items.size(), classes.size());
  for (const consensus::LabelError& error : consensus::FindLabelErrors(labels, view)) {
    errors[items[error.example]] = classes[static_cast<std::size_t>(error.suggested)];
  }
  return errors;
}

absl::Status LabelPager::Begin() {
  FULCRUM_RETURN_IF_ERROR(reader_.CatchUp());
  if (!errors_) errors_ = FindLikelyErrors(reader_.state());
  next_ = 1;
  last_ = reader_.state().last_sequence();
  return reader_.VisitEvents(1, last_, [&](const Event& event) {
    if (const auto* imported = std::get_if<LabelImported>(&event.body)) imports_[imported->item] = event.sequence;
    if (const auto* resolved = std::get_if<ItemResolved>(&event.body)) imports_[resolved->item] = event.sequence;
    return absl::OkStatus();
  });
}

ExportedLabel LabelPager::Describe(EventRow event) const {
  ExportedLabel label{.late = event.reason == "late"};
  const Item& item = *reader_.state().items().Find(event.item);
  label.item_status = ItemStatusName(item.status);
  label.decision = item.status == ItemStatus::kLabeled ? item.value : "";
  label.agreement = AgreementOf(item);
  label.confidence = ConfidenceOf(item, reader_.state());
  label.annotator_accuracy = AccuracyOf(event.annotator, reader_.state().crowd());
  if (const auto error = errors_->find(event.item); error != errors_->end() && !label.decision.empty()) {
    label.suggested = error->second;
  }
  if (event.kind == EventKind::kLabelImported || event.kind == EventKind::kItemResolved) {
    label.counts = imports_.at(event.item) == event.sequence;
  } else if (const Vote* const vote = ItemTable::FindVote(item, event.annotator)) {
    label.counts = vote->sequence == event.sequence && !vote->withdrawn;
  }
  label.event = std::move(event);
  return label;
}

absl::StatusOr<std::vector<ExportedLabel>> LabelPager::Next(std::size_t most) {
  if (next_ == 0) FULCRUM_RETURN_IF_ERROR(Begin());
  std::vector<ExportedLabel> page;
  if (next_ > last_) return page;
  const absl::Status full = absl::OutOfRangeError("the page is full");
  const absl::Status status = reader_.VisitEvents(next_, last_, [&](const Event& event) {
    if (page.size() == most) return full;
    next_ = event.sequence + 1;
    if (LabelKindName(KindOf(event.body)) != nullptr) page.push_back(Describe(EncodeEvent(event)));
    return absl::OkStatus();
  });
  if (!status.ok() && status != full) return status;
  return page;
}

absl::Status VisitLabels(CampaignReader& reader, const std::function<absl::Status(const ExportedLabel&)>& use) {
  LabelPager pager(reader);
  while (true) {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<ExportedLabel> page, pager.Next(kPage));
    if (page.empty()) return absl::OkStatus();
    for (const ExportedLabel& label : page) FULCRUM_RETURN_IF_ERROR(use(label));
  }
}

std::string LabelCsvHeader() {
  return absl::StrCat(absl::StrJoin(kExportColumns, ","), "\n");
}

void AppendLabelCsv(const ExportedLabel& label, std::string& text) {
  const EventRow& event = label.event;
  const auto field = [&](absl::string_view value) {
    text.push_back(',');
    ingest::AppendCsvField(value, text);
  };
  absl::StrAppend(&text, event.sequence, ",", LabelKindName(event.kind));
  field(event.item);
  field(event.value);
  field(event.annotator);
  absl::StrAppend(&text, ",", FormatUtc(event.at), ",", event.lease, ",", event.epoch, ",", event.slot, ",",
                  event.round, ",");
  AppendNumber(event.cost, text);
  absl::StrAppend(&text, label.late ? ",true" : ",false");
  field(event.request_id);
  absl::StrAppend(&text, label.counts ? ",true" : ",false", ",", label.item_status);
  field(label.decision);
  for (const std::optional<double>& number : {label.agreement, label.confidence, label.annotator_accuracy}) {
    text.push_back(',');
    if (number) AppendNumber(*number, text);
  }
  field(label.suggested);
  text.push_back('\n');
}

absl::StatusOr<std::shared_ptr<arrow::Table>> LabelTable(const std::vector<ExportedLabel>& labels) {
  FULCRUM_ASSIGN_OR_RETURN(const auto columns, ingest::FromArrow(Columns(labels), "preparing the labels"));
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (std::size_t i = 0; i < columns.size(); ++i)
    fields.push_back(arrow::field(kExportColumns[i], columns[i]->type()));
  return arrow::Table::Make(arrow::schema(fields), columns);
}

namespace {

/// Counts what annotators did, event by event.
class ActivityCounter {
 public:
  absl::Status Count(const Event& event) {
    if (const auto* const granted = std::get_if<LeaseGranted>(&event.body)) {
      (void)granted;
      leased_at_[event.sequence] = event.at;
      summaries_[event.annotator].last_seen = event.at;
    } else if (const auto* const label = std::get_if<LabelSubmitted>(&event.body)) {
      AnnotatorSummary& summary = Seen(event);
      ++summary.labels;
      summary.cost += label->cost;
      EndLease(label->lease, event, label->late);
    } else if (const auto* const skipped = std::get_if<TaskSkipped>(&event.body)) {
      ++Seen(event).skips;
      free_since_[event.annotator] = event.at;
      leased_at_.erase(skipped->lease);
    } else if (const auto* const expired = std::get_if<LeaseExpired>(&event.body)) {
      ++summaries_[event.annotator].expired_leases;
      leased_at_.erase(expired->lease);
    } else if (const auto* const released = std::get_if<LeaseReleased>(&event.body)) {
      leased_at_.erase(released->lease);
    }
    return absl::OkStatus();
  }

  std::map<std::string, AnnotatorSummary> Take() {
    for (auto& [name, seconds] : seconds_) {
      const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
      std::nth_element(seconds.begin(), middle, seconds.end());
      summaries_[name].answer_seconds = *middle;
    }
    return std::move(summaries_);
  }

 private:
  AnnotatorSummary& Seen(const Event& event) {
    AnnotatorSummary& summary = summaries_[event.annotator];
    summary.last_seen = event.at;
    return summary;
  }
  /// A worker that takes several tasks at once works on one after the other.
  void EndLease(std::int64_t lease, const Event& event, bool late) {
    const auto found = leased_at_.find(lease);
    if (found == leased_at_.end()) return;
    Time& free_since = free_since_[event.annotator];
    const Time begun = std::max(found->second, free_since);
    free_since = event.at;
    if (!late) seconds_[event.annotator].push_back(std::chrono::duration<double>(event.at - begun).count());
    leased_at_.erase(found);
  }

  std::map<std::string, AnnotatorSummary> summaries_;
  std::map<std::string, std::vector<double>> seconds_;
  absl::flat_hash_map<std::int64_t, Time> leased_at_;
  std::map<std::string, Time> free_since_;  // when annotators last answered or skipped a task
};

}  // namespace

absl::StatusOr<AnnotatorReport> ReportAnnotators(CampaignReader& reader, const std::vector<std::string>& classes) {
  FULCRUM_RETURN_IF_ERROR(reader.CatchUp());
  const CampaignState& state = reader.state();
  ActivityCounter activity;
  FULCRUM_RETURN_IF_ERROR(
      reader.VisitEvents(1, state.last_sequence(), [&](const Event& event) { return activity.Count(event); }));
  std::map<std::string, AnnotatorSummary> summaries = activity.Take();
  for (const auto& [name, reason] : state.paused()) summaries[name].paused = reason;

  AnnotatorReport report{.classes = classes};
  const GatheredVotes gathered = GatherVotes(state, classes);
  report.votes = static_cast<std::int64_t>(gathered.votes.size());
  report.items = static_cast<std::int64_t>(gathered.items.size());
  if (!gathered.votes.empty() && classes.size() >= 2) {
    const consensus::Consensus consensus = EstimateFrom(gathered, classes.size(), state.crowd());
    auto qualities = consensus::JudgeAnnotators(gathered.Problem(classes.size()), consensus);
    const auto kappa = consensus::MeanCohenKappa(gathered.votes, gathered.annotators.size(), classes.size());
    for (std::size_t a = 0; a < gathered.annotators.size(); ++a) {
      AnnotatorSummary& summary = summaries[gathered.annotators[a]];
      summary.quality = std::move(qualities[a]);
      summary.kappa = kappa.of_annotator[a];
    }
    report.cohen_kappa = kappa.overall;
    report.fleiss_kappa = consensus::FleissKappa(gathered.votes, gathered.items.size(), classes.size());
    report.krippendorff_alpha = consensus::KrippendorffAlpha(gathered.votes, gathered.items.size(), classes.size());
  }
  for (auto& [name, summary] : summaries) {
    summary.name = name;
    report.annotators.push_back(std::move(summary));
  }
  return report;
}

}  // namespace fulcrum::storage
