#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "arrow/api.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/commands/campaign_commands.h"
#include "pipeline/commands/options.h"
#include "pipeline/text/text_sink.h"
#include "stages/classify/libsvm_export.h"
#include "stages/classify/model_file.h"
#include "stages/core/files.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/csv.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {
namespace {

// Where exported labels go: CSV as they come, or Parquet. Not thread-safe.

class ExportedLabel;

class LabelExport {
 public:
  virtual ~LabelExport() = default;
  virtual absl::Status Add(const v1::ExportedLabel& label) = 0;
  /// Puts the file in its place; without it nothing appears.
  virtual absl::Status Finish() = 0;
};

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

/// In groups of rows, so that any number of labels takes the memory of one group.
class ParquetExport final : public LabelExport {
 public:
  static absl::StatusOr<std::unique_ptr<LabelExport>> Open(const std::string& path) {
    FULCRUM_ASSIGN_OR_RETURN(auto file, ingest::TableFile::Create(path));
    const auto schema = arrow::schema({arrow::field("sequence", arrow::int64()), arrow::field("id", arrow::utf8()),
                                       arrow::field("label", arrow::utf8()), arrow::field("annotator", arrow::utf8()),
                                       arrow::field("time", arrow::timestamp(arrow::TimeUnit::MICRO, "UTC")),
                                       arrow::field("round", arrow::int64()), arrow::field("lease_id", arrow::int64()),
                                       arrow::field("cost", arrow::float64()), arrow::field("kind", arrow::utf8())});
    FULCRUM_ASSIGN_OR_RETURN(auto writer,
                             ingest::MakeTableWriter(ingest::TableFormat::kParquet, schema, file->stream()));
    return std::unique_ptr<LabelExport>(new ParquetExport(std::move(file), schema, std::move(writer)));
  }

  absl::Status Add(const v1::ExportedLabel& label) override {
    FULCRUM_RETURN_IF_ERROR(FromArrow(Append(label)));
    return sequence_.length() < kRowsPerGroup ? absl::OkStatus() : WriteGroup();
  }

  absl::Status Finish() override {
    FULCRUM_RETURN_IF_ERROR(WriteGroup());
    FULCRUM_RETURN_IF_ERROR(writer_->Finish());
    return file_->Commit();
  }

 private:
  static constexpr std::int64_t kRowsPerGroup = 65'536;

  ParquetExport(std::unique_ptr<ingest::TableFile> file, std::shared_ptr<arrow::Schema> schema,
                std::unique_ptr<ingest::TableWriter> writer)
      : file_(std::move(file)), schema_(std::move(schema)), writer_(std::move(writer)) {}

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

  absl::Status WriteGroup() {
    const std::int64_t rows = sequence_.length();
    arrow::ArrayVector columns;
    for (arrow::ArrayBuilder* const builder : std::initializer_list<arrow::ArrayBuilder*>{
             &sequence_, &id_, &label_, &annotator_, &time_, &round_, &lease_id_, &cost_, &kind_}) {
      FULCRUM_RETURN_IF_ERROR(FromArrow(builder->Finish(&columns.emplace_back())));
    }
    return writer_->Write(*arrow::RecordBatch::Make(schema_, rows, std::move(columns)));
  }

  const std::unique_ptr<ingest::TableFile> file_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::unique_ptr<ingest::TableWriter> writer_;
  arrow::Int64Builder sequence_, round_, lease_id_;
  arrow::StringBuilder id_, label_, annotator_, kind_;
  arrow::TimestampBuilder time_{arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), arrow::default_memory_pool()};
  arrow::DoubleBuilder cost_;
};

/// By the ending of the path: .parquet, else CSV, gzipped where it ends in .gz; "-" is standard output. Columns:
/// sequence, id, label, annotator, time, round, lease_id, cost, kind; `id` and `label` are what `fulcrum select
/// --labels` reads.
absl::StatusOr<std::unique_ptr<LabelExport>> OpenLabelExport(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".parquet")) return ParquetExport::Open(path);
  FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TextSink> sink, OpenTextSink(path));
  return std::make_unique<CsvExport>(std::move(sink));
}

}  // namespace

// `fulcrum campaign export NAME`: every label there is, as CSV or Parquet.

namespace {

struct ExportOptions {
  CampaignOptions campaign = {};
  std::string out = "-";
};

absl::Status Export(const ExportOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<LabelExport> out, OpenLabelExport(options.out));
  FULCRUM_RETURN_IF_ERROR(
      CampaignCalls(connection).ExportLabels(options.campaign.name, [&](const v1::ExportedLabel& label) {
        return out->Add(label);
      }));
  return out->Finish();
}

CommandRun AddExport(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write: .parquet, .csv or .csv.gz; - is CSV on standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddConnectionOptions(app, options->campaign.connection);
  app.footer(
      "Columns: sequence,id,label,annotator,time,round,lease_id,cost,kind, in the order the labels were given.\n"
      "The file appears when it is whole.");
  return [options] { return Export(*options); };
}

}  // namespace

Command CampaignExportCommand() {
  return {"export", "Labels", "Write every label to a file, with who gave it and when", AddExport};
}

// `fulcrum campaign model NAME`: a trained model as a file.

namespace {

constexpr char kOwnFormat[] = "fulcrum";
constexpr char kLibsvmFormat[] = "libsvm";

struct ModelOptions {
  CampaignOptions campaign = {};
  std::int64_t round = 0;
  std::string out = {};
  std::string format = kOwnFormat;
};

/// The model as the file has it.
absl::StatusOr<std::string> InFormat(const std::string& format, std::string bytes) {
  if (format != kLibsvmFormat) return bytes;
  FULCRUM_ASSIGN_OR_RETURN(const classify::SavedSvm saved, classify::ParseSvm(bytes));
  return classify::FormatLibsvmModel(saved.model, *saved.features);
}

absl::Status FetchModel(const ModelOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options.out));
  std::string bytes;
  FULCRUM_ASSIGN_OR_RETURN(
      const v1::ModelDescription model,
      CampaignCalls(connection).GetModel(options.campaign.name, options.round, [&](const std::string& chunk) {
        bytes += chunk;
        return absl::OkStatus();
      }));
  FULCRUM_ASSIGN_OR_RETURN(const std::string content, InFormat(options.format, std::move(bytes)));
  FULCRUM_RETURN_IF_ERROR(file.Write(content));
  FULCRUM_RETURN_IF_ERROR(file.Commit());
  return PrintAnswer(options.campaign,
                     absl::StrCat(options.out, ": the model of round ", model.round(), ", trained on the log up to ",
                                  model.trained_on(), ", ", content.size(), " bytes\n"),
                     model);
}

CommandRun AddModel(CLI::App& app) {
  auto options = std::make_shared<ModelOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write")->type_name("FILE")->required();
  app.add_option("--round", options->round, "The round that it was trained for; the latest unless given")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--format", options->format, "fulcrum, or libsvm for svm-predict and other programs")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({kOwnFormat, kLibsvmFormat}))
      ->capture_default_str();
  AddCampaignOptions(app, options->campaign);
  app.footer(
      "The file holds the support vectors with their features and predicts without the pool; Fulcrum's own format is\n"
      "described in stages/classify/model_file.h. The file appears when it is complete.\n\n"
      "In LIBSVM's format class 0 is the first class of the campaign, class 1 the second, and so on. Features are\n"
      "normalised as in the campaign: normalise what is to be predicted in the same way.\n\n"
      "Example:\n"
      "  fulcrum campaign model digits --format libsvm --out digits.model");
  return [options] { return FetchModel(*options); };
}

}  // namespace

Command CampaignModelCommand() {
  return {"model", "Pool and models", "Write a trained model to a file", AddModel};
}

// `fulcrum campaign predict NAME`: what a model says of rows in a file, or of examples of the pool.

namespace {

constexpr std::size_t kMostValues = 200'000;  // of a request: some 2 MB
constexpr std::size_t kMostRows = 1000;
constexpr char kFooter[] =
    R"(Writes CSV: id, class, a decision value for each pair of classes, and a probability for each class if
the model has them. The file of --rows has the pool's feature columns, as they are in the pool's files.

Example:
  fulcrum campaign predict digits --rows new.parquet --out predicted.csv)";

struct PredictOptions {
  CampaignOptions campaign = {};
  std::int64_t round = 0;
  std::string rows = {};
  std::vector<std::string> items = {};
  std::string out = "-";
  std::string memory = "2GiB";
};

v1::FeatureRow RowOf(const ingest::PoolFeatures& features, std::size_t row) {
  v1::FeatureRow message;
  if (features.is_sparse()) {
    const auto columns = features.sparse().ColumnsOf(row);
    const auto values = features.sparse().ValuesOf(row);
    message.mutable_indices()->Add(columns.begin(), columns.end());
    message.mutable_values()->Add(values.begin(), values.end());
  } else {
    const auto values = features.dense().row(row);
    message.mutable_values()->Add(values.begin(), values.end());
  }
  return message;
}

/// What is asked about, in order: examples of the pool by name, then the rows of a file. Requests are made one at a
/// time, because all of them together would take several times the memory of the rows.
class Questions {
 public:
  Questions(std::vector<std::string> items, ingest::Pool rows) : items_(std::move(items)), rows_(std::move(rows)) {}

  std::size_t size() const { return items_.size() + rows_.features.rows(); }
  std::string NameOf(std::size_t number) const {
    return number < items_.size() ? items_[number] : rows_.ids.TextOf(static_cast<RowIndex>(number - items_.size()));
  }
  /// Asks about as many as a request may have, from number `first` on.
  void Ask(std::size_t first, v1::PredictRequest& request) const {
    const std::size_t most =
        std::clamp<std::size_t>(kMostValues / std::max<std::size_t>(rows_.features.cols(), 1), 1, kMostRows);
    for (std::size_t i = first; i < std::min(size(), first + most); ++i) {
      if (i < items_.size()) {
        request.add_item_ids(items_[i]);
      } else {
        *request.add_rows() = RowOf(rows_.features, i - items_.size());
      }
    }
  }

 private:
  std::vector<std::string> items_;
  ingest::Pool rows_;
};

absl::StatusOr<Questions> ReadQuestions(const PredictOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  if (options.rows.empty()) return Questions(options.items, {});
  absl::StatusOr<ingest::Pool> rows = ingest::LoadPool(options.rows, {.limits = limits});
  FULCRUM_RETURN_IF_ERROR(WithMemoryAdvice(rows.status(), options.memory));
  return Questions(options.items, *std::move(rows));
}

/// A line of CSV that grows.
class CsvLine {
 public:
  void Add(const std::string& value) {
    if (!line_.empty()) line_ += ',';
    ingest::AppendCsvField(value, line_);
  }
  std::string Ended() const { return line_ + "\n"; }

 private:
  std::string line_;
};

std::string Header(const v1::PredictResponse& response) {
  CsvLine line;
  line.Add("id");
  line.Add("class");
  for (const v1::ClassPair& pair : response.pairs()) {
    line.Add(absl::StrCat("decision ", pair.first(), "|", pair.second()));
  }
  const bool likely = response.predictions_size() > 0 && response.predictions(0).probabilities_size() > 0;
  for (int i = 0; likely && i < response.classes_size(); ++i) {
    line.Add(absl::StrCat("probability ", response.classes(i)));
  }
  return line.Ended();
}

std::string Line(const std::string& name, const v1::Prediction& prediction) {
  CsvLine line;
  line.Add(name);
  line.Add(prediction.value());
  for (const double value : prediction.decision_values()) line.Add(absl::StrCat(value));
  for (const double value : prediction.probabilities()) line.Add(absl::StrCat(value));
  return line.Ended();
}

absl::Status Predict(const PredictOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const Questions questions, ReadQuestions(options));
  if (questions.size() == 0) return absl::InvalidArgumentError("say what to predict: --rows FILE or --item ID");
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> out, OpenTextSink(options.out));
  std::int64_t round = options.round;
  for (std::size_t answered = 0; answered < questions.size();) {
    v1::PredictRequest request;
    request.set_name(options.campaign.name);
    // A newer model may be trained between two requests; all answers must be of the same one.
    request.set_round(round);
    questions.Ask(answered, request);
    FULCRUM_ASSIGN_OR_RETURN(const v1::PredictResponse response, calls.Predict(request));
    if (response.predictions_size() != request.item_ids_size() + request.rows_size()) {
      return absl::InternalError(absl::StrCat("the server answered ", response.predictions_size(), " of ",
                                              request.item_ids_size() + request.rows_size(), " questions"));
    }
    round = response.round();
    if (answered == 0) FULCRUM_RETURN_IF_ERROR(out->Write(Header(response)));
    for (const v1::Prediction& prediction : response.predictions()) {
      FULCRUM_RETURN_IF_ERROR(out->Write(Line(questions.NameOf(answered++), prediction)));
    }
  }
  FULCRUM_RETURN_IF_ERROR(out->Finish());
  return out->Commit();
}

CommandRun AddPredict(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--rows", options->rows, "Table with rows of features")->type_name("FILE");
  app.add_option("--item", options->items, "An example of the pool; may be given several times")->type_name("ID");
  app.add_option("--round", options->round, "Use this round's model; the latest unless given")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--out", options->out, "File to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddMemoryOption(app, options->memory);
  AddConnectionOptions(app, options->campaign.connection);
  app.footer(kFooter);
  return [options] { return Predict(*options); };
}

}  // namespace

Command CampaignPredictCommand() {
  return {"predict", "Pool and models", "Ask a trained model about examples", AddPredict};
}

}  // namespace fulcrum::pipeline
