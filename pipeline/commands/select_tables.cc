#include "pipeline/commands/select_tables.h"

#include "absl/strings/str_cat.h"
#include "stages/ingest/csv_text.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::pipeline {
namespace {

void AppendClass(const SelectInputs& inputs, ClassIndex index, std::string& text) {
  if (index != kUnlabeled) ingest::AppendCsvField(inputs.classes.NameOf(index), text);
}

}  // namespace

ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row) {
  return result.predicted.empty() ? inputs.labels[row] : result.predicted[row];
}

std::string BatchTable(const SelectInputs& inputs, const RoundResult& result) {
  std::string text = "rank,id,class,leverage,gain\n";
  std::size_t rank = 0;
  for (const select::Pick& pick : result.selection.picks) {
    absl::StrAppend(&text, ++rank, ",");
    ingest::AppendCsvField(inputs.ids.TextOf(pick.row), text);
    text.push_back(',');
    AppendClass(inputs, pick.class_index == kUnlabeled ? ClassOf(inputs, result, pick.row) : pick.class_index, text);
    text.push_back(',');
    ingest::AppendNumber(pick.leverage, text);
    text.push_back(',');
    ingest::AppendNumber(pick.gain, text);
    text.push_back('\n');
  }
  return text;
}

std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result) {
  std::string text = "id,class,labeled,leverage\n";
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    const auto row = static_cast<RowIndex>(i);
    ingest::AppendCsvField(inputs.ids.TextOf(row), text);
    text.push_back(',');
    AppendClass(inputs, ClassOf(inputs, result, row), text);
    text.append(inputs.labels[i] == kUnlabeled ? ",0," : ",1,");
    if (!result.leverage.empty()) ingest::AppendNumber(result.leverage[i], text);
    text.push_back('\n');
  }
  return text;
}

}  // namespace fulcrum::pipeline
