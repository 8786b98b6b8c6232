#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/pool.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::pipeline {
// `fulcrum campaign export NAME`: every label there is, as CSV or Parquet.

namespace {

struct ExportOptions {
  CampaignOptions campaign = {};
  std::string out = "-";
  bool errors = false;
};

std::string ItemStateName(v1::ItemState state) {
  switch (state) {
    case v1::ITEM_STATE_LABELED:
      return storage::ItemStatusName(storage::ItemStatus::kLabeled);
    case v1::ITEM_STATE_DISPUTED:
      return storage::ItemStatusName(storage::ItemStatus::kDisputed);
    case v1::ITEM_STATE_SET_ASIDE:
      return storage::ItemStatusName(storage::ItemStatus::kSetAside);
    case v1::ITEM_STATE_OPEN:
    case v1::ITEM_STATE_LEASED:
      return storage::ItemStatusName(storage::ItemStatus::kOffered);
    default:
      return storage::ItemStatusName(storage::ItemStatus::kInPool);
  }
}

/// As the store has it, so that both exports write the same columns.
absl::StatusOr<storage::ExportedLabel> FromMessage(const v1::ExportedLabel& label) {
  const std::string kind = v1::LabelKind_Name(label.kind());
  storage::ExportedLabel row;
  FULCRUM_ASSIGN_OR_RETURN(row.event.kind,
                           storage::ParseLabelKind(absl::AsciiStrToLower(absl::StripPrefix(kind, "LABEL_KIND_"))));
  row.event.sequence = label.sequence();
  row.event.item = label.item_id();
  row.event.value = label.value();
  row.event.annotator = label.annotator();
  row.event.at =
      storage::Time(std::chrono::microseconds(label.time().seconds() * 1'000'000 + label.time().nanos() / 1'000));
  row.event.lease = label.lease_id();
  row.event.epoch = label.epoch();
  row.event.slot = label.slot();
  row.event.round = label.round();
  row.event.cost = label.cost();
  row.event.request_id = label.request_id();
  row.late = label.late();
  row.counts = label.counts();
  row.item_status = ItemStateName(label.item_state());
  row.decision = label.decision();
  if (label.has_agreement()) row.agreement = label.agreement();
  if (label.has_confidence()) row.confidence = label.confidence();
  if (label.has_annotator_accuracy()) row.annotator_accuracy = label.annotator_accuracy();
  row.suggested = label.suggested();
  return row;
}

absl::Status Export(const ExportOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  return WriteLabels(options.out, [&](const UseLabel& use) {
    return CampaignCalls(connection)
        .ExportLabels(options.campaign.name, options.errors, [&](const v1::ExportedLabel& label) -> absl::Status {
          FULCRUM_ASSIGN_OR_RETURN(const storage::ExportedLabel row, FromMessage(label));
          return use(row);
        });
  });
}

CommandRun AddCampaignExport(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write: .parquet, .csv or .csv.gz; - is CSV on standard output")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag(
      "--errors", options->errors,
      "Look for labels that are likely wrong, as 'fulcrum annotators errors' does; the column 'suggested' has\n"
      "the class that each of them should perhaps have instead");
  AddConnectionOptions(app, options->campaign.connection);
  app.footer(
      "The columns are those of 'fulcrum export', in the order in which the labels were given. The file appears when\n"
      "it is complete.");
  return [options] { return Export(*options); };
}

}  // namespace

Command CampaignExportCommand() {
  return {"export", "Labels", "Write every label to a file, with who gave it and when", AddCampaignExport};
}

// `fulcrum campaign model NAME`: a trained model as a file.

namespace {

const std::map<std::string, v1::ModelFormat>& ModelFormats() {
  static const auto* const formats = new std::map<std::string, v1::ModelFormat>{
      {"fulcrum", v1::MODEL_FORMAT_FULCRUM}, {"libsvm", v1::MODEL_FORMAT_LIBSVM}, {"onnx", v1::MODEL_FORMAT_ONNX}};
  return *formats;
}

struct ModelOptions {
  CampaignOptions campaign = {};
  std::int64_t round = 0;
  std::string out = {};
  std::string format = "fulcrum";
};

absl::Status FetchModel(const ModelOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options.out));
  v1::GetModelRequest request;
  request.set_campaign(options.campaign.name);
  request.set_round(options.round);
  request.set_format(ModelFormats().at(options.format));
  FULCRUM_ASSIGN_OR_RETURN(
      const v1::ModelDescription model,
      CampaignCalls(connection).GetModel(request, [&](const std::string& chunk) { return file.Write(chunk); }));
  FULCRUM_RETURN_IF_ERROR(file.Commit());
  return PrintAnswer(options.campaign,
                     absl::StrCat(options.out, ": the model of round ", model.round(), ", trained on the log up to ",
                                  model.trained_on(), ", ", model.bytes(), " bytes\n"),
                     model);
}

CommandRun AddModel(CLI::App& app) {
  auto options = std::make_shared<ModelOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write")->type_name("FILE")->required();
  app.add_option("--round", options->round, "The round that it was trained for; the latest unless given")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--format", options->format, "fulcrum, onnx (with the normalisation), or libsvm (without it)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(ModelFormats()))
      ->capture_default_str();
  AddCampaignOptions(app, options->campaign);
  app.footer(
      "The file predicts without the pool. It appears when it is complete. Formats:\n"
      "  fulcrum   its own, described in stages/classify/model_file.h\n"
      "  onnx      for ONNX Runtime and others: input 'features', rows as they are in the files of the pool; outputs\n"
      "            'label', 'probabilities' and 'decision_values'\n"
      "  libsvm    for svm-predict and all bindings of LIBSVM\n\n"
      "In LIBSVM's format class 0 is the first class of the campaign, class 1 the second, and so on. Features are\n"
      "normalised as in the campaign: normalise what is to be predicted in the same way.\n\n"
      "Example:\n"
      "  fulcrum campaign model digits --format onnx --out digits.onnx");
  return [options] { return FetchModel(*options); };
}

}  // namespace

Command CampaignModelCommand() {
  return {"model", "Pool and models", "Write a trained model to a file", AddModel};
}

// `fulcrum campaign predict NAME`: what a model says of rows in a file, or of examples of the pool.

namespace {

constexpr std::size_t kMostValues = 200'000;  // of a request: some 2 MB
constexpr std::size_t kMostRowsPerCall = 1000;
constexpr char kPredictFooter[] =
    R"(Writes CSV: id, class, a decision value for each pair of classes, and a probability for each class if
the model has them. The file of --rows has the pool's feature columns, as they are in the pool's files, in any
order; they are matched by name.

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
        std::clamp<std::size_t>(kMostValues / std::max<std::size_t>(rows_.features.cols(), 1), 1, kMostRowsPerCall);
    for (std::size_t i = first; i < std::min(size(), first + most); ++i) {
      if (i < items_.size()) {
        request.add_item_ids(items_[i]);
      } else {
        // By name: the columns of the file may be in another order than the pool's.
        if (request.rows().empty()) {
          for (const std::string& name : rows_.feature_names) request.add_feature_names(name);
        }
        *request.add_rows() = RowOf(rows_.features, i - items_.size());
      }
    }
  }

 private:
  std::vector<std::string> items_;
  ingest::Pool rows_;
};

absl::StatusOr<Questions> ReadQuestions(const PredictOptions& options, CampaignCalls& calls) {
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  if (options.rows.empty()) return Questions(options.items, {});
  FULCRUM_ASSIGN_OR_RETURN(const v1::Campaign campaign, calls.Get(options.campaign.name));
  const v1::PoolSpec& spec = campaign.spec().pool();
  // The columns that are no features of the pool are none here either, if the file has them.
  const ingest::PoolOptions reading{
      .columns = {.id = spec.id_column(),
                  .label = spec.label_column(),
                  .cost = spec.cost_column(),
                  .payload = spec.payload_column(),
                  .ignored = {spec.ignored_columns().begin(), spec.ignored_columns().end()},
                  .roles_may_be_missing = true},
      .limits = limits};
  absl::StatusOr<ingest::Pool> rows = ingest::LoadPool(options.rows, reading);
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
  if (options.rows.empty() && options.items.empty()) {
    return absl::InvalidArgumentError("say what to predict: --rows FILE or --item ID");
  }
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  CampaignCalls calls(connection);
  FULCRUM_ASSIGN_OR_RETURN(const Questions questions, ReadQuestions(options, calls));
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> out, OpenTextSink(options.out));
  std::int64_t round = options.round;
  for (std::size_t answered = 0; answered < questions.size();) {
    v1::PredictRequest request;
    request.set_campaign(options.campaign.name);
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
  app.footer(kPredictFooter);
  return [options] { return Predict(*options); };
}

}  // namespace

Command CampaignPredictCommand() {
  return {"predict", "Pool and models", "Ask a trained model about examples", AddPredict};
}

}  // namespace fulcrum::pipeline
