#include "storage/maintenance/label_export.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/csv.h"
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
    "sequence",          "kind",   "id",         "label",    "annotator", "time",
    "lease_id",          "epoch",  "slot",       "round",    "cost",      "late",
    "request_id",        "counts", "item_state", "decision", "agreement", "confidence",
    "annotator_accuracy"};

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
  const std::optional<Opinion> opinion = OpinionOf(item.votes, state.settings(), state.crowd());
  return opinion ? std::optional(opinion->confidence) : std::nullopt;
}

std::optional<double> AccuracyOf(const std::string& annotator, const Crowd* crowd) {
  if (crowd == nullptr) return std::nullopt;
  const auto found = std::lower_bound(crowd->annotators.begin(), crowd->annotators.end(), annotator);
  if (found == crowd->annotators.end() || *found != annotator) return std::nullopt;
  return crowd->model.accuracy[static_cast<std::size_t>(found - crowd->annotators.begin())];
}

}  // namespace

absl::Status LabelPager::Begin() {
  FULCRUM_RETURN_IF_ERROR(reader_.CatchUp());
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
  text.push_back('\n');
}

absl::StatusOr<std::shared_ptr<arrow::Table>> LabelTable(const std::vector<ExportedLabel>& labels) {
  FULCRUM_ASSIGN_OR_RETURN(const auto columns, ingest::FromArrow(Columns(labels), "preparing the labels"));
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (std::size_t i = 0; i < columns.size(); ++i)
    fields.push_back(arrow::field(kExportColumns[i], columns[i]->type()));
  return arrow::Table::Make(arrow::schema(fields), columns);
}

}  // namespace fulcrum::storage
