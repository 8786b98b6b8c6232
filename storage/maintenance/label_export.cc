#include "storage/maintenance/label_export.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/csv.h"

namespace fulcrum::storage {
namespace {

bool IsLabelEvent(EventKind kind) {
  return kind == EventKind::kLabelSubmitted || kind == EventKind::kLabelChanged || kind == EventKind::kLabelWithdrawn ||
         kind == EventKind::kLabelImported;
}

using LastImports = absl::flat_hash_map<std::string, std::int64_t>;

absl::StatusOr<LastImports> FindLastImports(CampaignReader& reader, std::int64_t last) {
  LastImports imports;
  FULCRUM_RETURN_IF_ERROR(reader.VisitEvents(1, last, [&](const Event& event) {
    if (const auto* imported = std::get_if<LabelImported>(&event.body)) imports[imported->item] = event.sequence;
    return absl::OkStatus();
  }));
  return imports;
}

ExportedLabel Describe(EventRow event, const CampaignState& state, const LastImports& imports) {
  ExportedLabel label{.late = event.reason == "late"};
  const Item& item = *state.items().Find(event.item);
  label.item_status = ItemStatusName(item.status);
  label.decision = item.status == ItemStatus::kLabeled ? item.value : "";
  if (event.kind == EventKind::kLabelImported) {
    label.counts = imports.at(event.item) == event.sequence;
  } else if (const Vote* const vote = ItemTable::FindVote(item, event.annotator)) {
    label.counts = vote->sequence == event.sequence && !vote->withdrawn;
  }
  label.event = std::move(event);
  return label;
}

constexpr const char* kColumns[] = {"sequence",   "kind",   "item",        "label",   "annotator", "time",
                                    "lease",      "epoch",  "slot",        "round",   "cost",      "late",
                                    "request_id", "counts", "item_status", "decision"};

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
  ARROW_RETURN_NOT_OK(text([](Label l) { return std::string(EventKindName(l.event.kind)); }));
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
  return columns;
}

}  // namespace

absl::Status VisitLabels(CampaignReader& reader, const std::function<absl::Status(const ExportedLabel&)>& use) {
  FULCRUM_RETURN_IF_ERROR(reader.CatchUp());
  const std::int64_t last = reader.state().last_sequence();
  FULCRUM_ASSIGN_OR_RETURN(const LastImports imports, FindLastImports(reader, last));
  return reader.VisitEvents(1, last, [&](const Event& event) {
    if (!IsLabelEvent(KindOf(event.body))) return absl::OkStatus();
    return use(Describe(EncodeEvent(event), reader.state(), imports));
  });
}

std::string LabelCsvHeader() {
  return absl::StrCat(absl::StrJoin(kColumns, ","), "\n");
}

void AppendLabelCsv(const ExportedLabel& label, std::string& text) {
  const EventRow& event = label.event;
  const auto field = [&](absl::string_view value) {
    text.push_back(',');
    ingest::AppendCsvField(value, text);
  };
  absl::StrAppend(&text, event.sequence, ",", EventKindName(event.kind));
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
  text.push_back('\n');
}

absl::StatusOr<std::shared_ptr<arrow::Table>> LabelTable(const std::vector<ExportedLabel>& labels) {
  FULCRUM_ASSIGN_OR_RETURN(const auto columns, ingest::FromArrow(Columns(labels), "preparing the labels"));
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (std::size_t i = 0; i < columns.size(); ++i) fields.push_back(arrow::field(kColumns[i], columns[i]->type()));
  return arrow::Table::Make(arrow::schema(fields), columns);
}

}  // namespace fulcrum::storage
