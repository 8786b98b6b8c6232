#include "pipeline/client/label_export.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "arrow/api.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/csv.h"
#include "stages/ingest/formats/parquet_file.h"

namespace fulcrum::pipeline {
namespace {

std::string TimeText(const v1::ExportedLabel& label) {
  const absl::Time time = absl::FromUnixSeconds(label.time().seconds()) + absl::Nanoseconds(label.time().nanos());
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

class CsvExport final : public LabelExport {
 public:
  explicit CsvExport(std::unique_ptr<TextSink> sink) : sink_(std::move(sink)) {}

  absl::Status Add(const v1::ExportedLabel& label) override {
    std::string line = std::exchange(heading_, "");
    absl::StrAppend(&line, label.sequence(), ",");
    for (const std::string& text : {label.item_id(), label.value(), label.annotator(), TimeText(label)}) {
      ingest::AppendCsvField(text, line);
      line.push_back(',');
    }
    absl::StrAppend(&line, label.round(), ",", label.lease_id(), ",");
    AppendNumber(label.cost(), line);
    line.push_back(',');
    ingest::AppendCsvField(label.kind(), line);
    line.push_back('\n');
    return sink_->Write(line);
  }

  absl::Status Finish() override {
    FULCRUM_RETURN_IF_ERROR(sink_->Write(heading_));
    FULCRUM_RETURN_IF_ERROR(sink_->Finish());
    return sink_->Commit();
  }

 private:
  const std::unique_ptr<TextSink> sink_;
  std::string heading_ = "sequence,id,label,annotator,time,round,lease_id,cost,kind\n";
};

absl::Status FromArrow(const arrow::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::ResourceExhaustedError(status.ToString());
}

/// Kept in memory until the end: a label takes some hundred bytes.
class ParquetExport final : public LabelExport {
 public:
  explicit ParquetExport(std::string path) : path_(std::move(path)) {}

  absl::Status Add(const v1::ExportedLabel& label) override { return FromArrow(Append(label)); }

  absl::Status Finish() override {
    std::vector<std::shared_ptr<arrow::Array>> columns(9);
    FULCRUM_RETURN_IF_ERROR(FromArrow(FinishColumns(columns)));
    const auto schema = arrow::schema({arrow::field("sequence", arrow::int64()), arrow::field("id", arrow::utf8()),
                                       arrow::field("label", arrow::utf8()), arrow::field("annotator", arrow::utf8()),
                                       arrow::field("time", time_.type()), arrow::field("round", arrow::int64()),
                                       arrow::field("lease_id", arrow::int64()), arrow::field("cost", arrow::float64()),
                                       arrow::field("kind", arrow::utf8())});
    return ingest::WriteParquetFile(*arrow::Table::Make(schema, columns), path_);
  }

 private:
  arrow::Status Append(const v1::ExportedLabel& label) {
    ARROW_RETURN_NOT_OK(sequence_.Append(label.sequence()));
    ARROW_RETURN_NOT_OK(id_.Append(label.item_id()));
    ARROW_RETURN_NOT_OK(label_.Append(label.value()));
    ARROW_RETURN_NOT_OK(annotator_.Append(label.annotator()));
    ARROW_RETURN_NOT_OK(time_.Append(label.time().seconds() * 1'000'000 + label.time().nanos() / 1'000));
    ARROW_RETURN_NOT_OK(round_.Append(label.round()));
    ARROW_RETURN_NOT_OK(lease_id_.Append(label.lease_id()));
    ARROW_RETURN_NOT_OK(cost_.Append(label.cost()));
    return kind_.Append(label.kind());
  }

  arrow::Status FinishColumns(std::vector<std::shared_ptr<arrow::Array>>& columns) {
    arrow::ArrayBuilder* const builders[] = {&sequence_, &id_,       &label_, &annotator_, &time_,
                                             &round_,    &lease_id_, &cost_,  &kind_};
    for (std::size_t i = 0; i < std::size(builders); ++i) ARROW_RETURN_NOT_OK(builders[i]->Finish(&columns[i]));
    return arrow::Status::OK();
  }

  const std::string path_;
  arrow::Int64Builder sequence_, round_, lease_id_;
  arrow::StringBuilder id_, label_, annotator_, kind_;
  arrow::TimestampBuilder time_{arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), arrow::default_memory_pool()};
  arrow::DoubleBuilder cost_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LabelExport>> OpenLabelExport(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".parquet")) return std::make_unique<ParquetExport>(path);
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TextSink> sink, OpenTextSink(path));
  return std::make_unique<CsvExport>(std::move(sink));
}

}  // namespace fulcrum::pipeline
