// The tables that `fulcrum select` writes.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "pipeline/commands/select/select_inputs.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::pipeline {
namespace {

void AppendClass(const SelectInputs& inputs, ClassIndex index, std::string& text) {
  if (index != kUnlabeled) ingest::AppendCsvField(inputs.classes.NameOf(index), text);
}

/// How probable the predicted class of the share's row is: a label is known already.
std::optional<double> ProbabilityOf(const SelectInputs& inputs, const RoundResult& result, std::size_t own) {
  if (result.confidence.empty() || inputs.labels[own] != kUnlabeled) return std::nullopt;
  return result.confidence[own];
}

}  // namespace

ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row) {
  // Picks of other processes have the class that was predicted, if any was.
  if (row < inputs.share.first || row >= inputs.share.first + inputs.share.count) return kUnlabeled;
  const std::size_t own = row - inputs.share.first;
  return result.predicted.empty() ? inputs.labels[own] : result.predicted[own];
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
    AppendNumber(pick.leverage, text);
    text.push_back(',');
    AppendNumber(pick.gain, text);
    text.push_back('\n');
  }
  return text;
}

std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result) {
  std::string text = "id,class,labeled,leverage,probability\n";
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    const auto row = static_cast<RowIndex>(inputs.share.first + i);
    ingest::AppendCsvField(inputs.ids.TextOf(row), text);
    text.push_back(',');
    AppendClass(inputs, ClassOf(inputs, result, row), text);
    text.append(inputs.labels[i] == kUnlabeled ? ",0," : ",1,");
    if (!result.leverage.empty()) AppendNumber(result.leverage[i], text);
    text.push_back(',');
    if (const auto probability = ProbabilityOf(inputs, result, i)) AppendNumber(*probability, text);
    text.push_back('\n');
  }
  return text;
}

namespace {

constexpr char kDoing[] = "cannot make the table";

arrow::Status AppendClass(const SelectInputs& inputs, ClassIndex index, arrow::StringBuilder& builder) {
  return index == kUnlabeled ? builder.AppendNull() : builder.Append(inputs.classes.NameOf(index));
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const std::vector<std::string>& names,
                                                     const std::vector<arrow::ArrayBuilder*>& builders) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), builders[i]->Finish());
    fields.push_back(arrow::field(names[i], arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

arrow::Result<std::shared_ptr<arrow::Table>> BatchAsTable(const SelectInputs& inputs, const RoundResult& result) {
  arrow::Int64Builder ranks;
  arrow::StringBuilder ids, classes;
  arrow::DoubleBuilder leverages, gains;
  std::int64_t rank = 0;
  for (const select::Pick& pick : result.selection.picks) {
    ARROW_RETURN_NOT_OK(ranks.Append(++rank));
    ARROW_RETURN_NOT_OK(ids.Append(inputs.ids.TextOf(pick.row)));
    const ClassIndex known = pick.class_index == kUnlabeled ? ClassOf(inputs, result, pick.row) : pick.class_index;
    ARROW_RETURN_NOT_OK(AppendClass(inputs, known, classes));
    ARROW_RETURN_NOT_OK(leverages.Append(pick.leverage));
    ARROW_RETURN_NOT_OK(gains.Append(pick.gain));
  }
  return ToTable({"rank", "id", "class", "leverage", "gain"}, {&ranks, &ids, &classes, &leverages, &gains});
}

arrow::Result<std::shared_ptr<arrow::Table>> ScoresAsTable(const SelectInputs& inputs, const RoundResult& result) {
  arrow::StringBuilder ids, classes;
  arrow::BooleanBuilder labeled;
  arrow::DoubleBuilder leverages, probabilities;
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    const auto row = static_cast<RowIndex>(inputs.share.first + i);
    ARROW_RETURN_NOT_OK(ids.Append(inputs.ids.TextOf(row)));
    ARROW_RETURN_NOT_OK(AppendClass(inputs, ClassOf(inputs, result, row), classes));
    ARROW_RETURN_NOT_OK(labeled.Append(inputs.labels[i] != kUnlabeled));
    ARROW_RETURN_NOT_OK(result.leverage.empty() ? leverages.AppendNull() : leverages.Append(result.leverage[i]));
    const std::optional<double> probability = ProbabilityOf(inputs, result, i);
    ARROW_RETURN_NOT_OK(probability ? probabilities.Append(*probability) : probabilities.AppendNull());
  }
  return ToTable({"id", "class", "labeled", "leverage", "probability"},
                 {&ids, &classes, &labeled, &leverages, &probabilities});
}

}  // namespace

std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path) {
  const auto format = ingest::FormatOf(path);
  const bool typed = format.ok() && *format != ingest::TableFormat::kCsv && *format != ingest::TableFormat::kLibsvm;
  return typed ? std::optional(*format) : std::nullopt;
}

absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(BatchAsTable(inputs, result), kDoing));
  return ingest::SerializeTable(format, *table);
}

absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(ScoresAsTable(inputs, result), kDoing));
  return ingest::SerializeTable(format, *table);
}

}  // namespace fulcrum::pipeline
