#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/onnx/onnx_export.h"
#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {
namespace {

absl::Status BadRow(const std::string& called, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(called, " ", what));
}

/// With 32 bits, so that a row of the pool gets the same answer by its values as by its name.
float AsThePoolHasIt(double value) {
  return static_cast<float>(value);
}

absl::Status FillSparse(const v1::FeatureRow& row, const std::string& called, std::span<double> to) {
  if (row.indices_size() != row.values_size()) {
    return BadRow(called, absl::StrCat("has ", row.indices_size(), " indices and ", row.values_size(), " values"));
  }
  std::fill(to.begin(), to.end(), 0.0);
  int last = -1;
  for (int i = 0; i < row.indices_size(); ++i) {
    const int index = row.indices(i);
    if (index <= last || static_cast<std::size_t>(index) >= to.size()) {
      return BadRow(called, absl::StrCat("has the index ", index, " after ", last, "; they must ascend, from 0 to ",
                                         to.size() - 1));
    }
    to[static_cast<std::size_t>(index)] = AsThePoolHasIt(row.values(i));
    last = index;
  }
  return absl::OkStatus();
}

absl::Status Fill(const v1::FeatureRow& row, const std::string& called, std::span<double> to) {
  if (!std::all_of(row.values().begin(), row.values().end(),
                   [](double value) { return std::isfinite(AsThePoolHasIt(value)); })) {
    return BadRow(called, "has a value that is not a finite 32-bit number");
  }
  if (row.indices_size() > 0) return FillSparse(row, called, to);
  if (static_cast<std::size_t>(row.values_size()) != to.size()) {
    return BadRow(called, absl::StrCat("has ", row.values_size(), " features, and the pool has ", to.size()));
  }
  std::transform(row.values().begin(), row.values().end(), to.begin(), AsThePoolHasIt);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FeatureRows> FeatureRows::Make(const CampaignPool& pool,
                                              const google::protobuf::RepeatedPtrField<std::string>& names) {
  FeatureRows rows;
  if (names.empty()) return rows;
  if (pool.feature_names().empty()) {
    return absl::InvalidArgumentError("the features of this pool have no names; leave 'feature_names' out");
  }
  FULCRUM_ASSIGN_OR_RETURN(rows.columns_, pool.MatchFeatures({names.begin(), names.end()}));
  return rows;
}

absl::Status FeatureRows::Read(const v1::FeatureRow& row, const std::string& called, std::span<double> to) const {
  if (columns_.empty()) return Fill(row, called, to);
  std::vector<double> values(columns_.size());
  FULCRUM_RETURN_IF_ERROR(Fill(row, called, values));
  for (std::size_t column = 0; column < columns_.size(); ++column) to[column] = values[columns_[column]];
  return absl::OkStatus();
}

absl::StatusOr<storage::StoredModel> ModelCache::Find(std::int64_t round) {
  return store_.Run(storage::FindModel, {.round = round});
}

absl::StatusOr<std::string> ModelCache::ReadBytes(const storage::StoredModel& stored) const {
  return storage::ReadModelFile(store_.folder(), stored);
}

absl::StatusOr<std::size_t> ModelCache::OpenFile(const storage::StoredModel& stored, std::ifstream& file) const {
  return storage::OpenModelFile(store_.folder(), stored, file);
}

absl::StatusOr<std::shared_ptr<const ShelvedModel>> ModelCache::Load(std::int64_t round) {
  FULCRUM_ASSIGN_OR_RETURN(storage::StoredModel stored, Find(round));
  {
    const std::scoped_lock lock(mutex_);
    if (last_ != nullptr && last_->stored.sequence == stored.sequence) return last_;
  }
  if (const std::string process = ModelProcessOf(stored); !process.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the model of round ", stored.round, " is in the process '",
                                                      process, "', and the server has only its predictions"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(stored));
  FULCRUM_ASSIGN_OR_RETURN(classify::SavedSvm svm, classify::ParseSvm(bytes));
  v1::ModelTrained record;
  if (!stored.record.empty()) FULCRUM_RETURN_IF_ERROR(ParseStoredText(stored.record, record));
  const auto model = std::make_shared<const ShelvedModel>(
      ShelvedModel{std::move(stored), std::move(svm), record.tuning().chosen().normalize()});
  const std::scoped_lock lock(mutex_);
  last_ = model;
  return model;
}

namespace {

constexpr std::size_t kMostRows = 10'000;
// What a request may make of a few names: 128 MiB of features, and an answer that fits into a message.
constexpr std::size_t kMostFeatures = std::size_t{1} << 24;
constexpr std::size_t kMostAnswers = 400'000;

absl::Status BadRow(int row, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("rows[", row, "] ", what));
}

/// All rows of the request, prepared as those that the model was trained on.
absl::StatusOr<Matrix<double>> RowsOf(const CampaignPool& pool, const std::string& normalize,
                                      const v1::PredictRequest& request) {
  const auto named = static_cast<std::size_t>(request.item_ids_size());
  const auto given = static_cast<std::size_t>(request.rows_size());
  Matrix<double> rows = Matrix<double>::Zero(named + given, pool.features().dims());
  FULCRUM_ASSIGN_OR_RETURN(const FeatureRows reader, FeatureRows::Make(pool, request.feature_names()));
  for (std::size_t i = 0; i < given; ++i) {
    const int number = static_cast<int>(i);
    FULCRUM_RETURN_IF_ERROR(reader.Read(request.rows(number), absl::StrCat("rows[", number, "]"), rows.row(named + i)));
  }
  pool.Normalize(rows.view().Rows(named, given));
  for (std::size_t i = 0; i < named; ++i) {
    const std::string& item = request.item_ids(static_cast<int>(i));
    const auto row = pool.ids().Find(item);
    if (!row) return absl::NotFoundError(absl::StrCat("the pool has no example '", item.substr(0, 200), "'"));
    pool.CopyRow(*row, rows.row(i));
  }
  if (!normalize.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool.NormalizerFor(normalize));
    ingest::PoolFeatures prepared(std::move(rows));
    normalizer->Apply(prepared);
    return std::move(prepared.dense());
  }
  return rows;
}

absl::Status CheckRequest(const CampaignPool& pool, const classify::SvmModel& model,
                          const v1::PredictRequest& request) {
  const auto rows = static_cast<std::size_t>(request.item_ids_size() + request.rows_size());
  const std::size_t most = std::min(
      {kMostRows, kMostFeatures / pool.features().dims(), kMostAnswers / (model.pairs.size() + model.class_count)});
  if (rows >= 1 && rows <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request names ", rows, " examples; it must be 1 to ", most, " of them at a time"));
}

/// Values that are not finite would be answered as NaN. The pool's own rows were checked by the round.
absl::Status CheckKernel(const kernel::KernelFunction& kernel, const kernel::Features& features,
                         const v1::PredictRequest& request) {
  const auto named = static_cast<RowIndex>(request.item_ids_size());
  for (RowIndex row = named; row < features.rows(); ++row) {
    const RowIndex one[] = {row};
    if (kernel::CheckKernelValues(kernel, features.squared_norms(), one).ok()) continue;
    return BadRow(static_cast<int>(row - named),
                  absl::StrCat("has features, normalized, of the squared length ", features.squared_norms()[row],
                               ", which is too large for the kernel ", kernel::DescribeKernel(kernel)));
  }
  return absl::OkStatus();
}

v1::PredictResponse Describe(const CampaignPlan& plan, const ShelvedModel& model) {
  v1::PredictResponse response;
  response.set_round(model.stored.round);
  response.set_trained_on(model.stored.trained_on);
  for (const std::string& name : plan.classes) response.add_classes(name);
  for (const classify::SvmPair& pair : model.svm.model.pairs) {
    v1::ClassPair& added = *response.add_pairs();
    added.set_first(plan.classes[static_cast<std::size_t>(pair.first)]);
    added.set_second(plan.classes[static_cast<std::size_t>(pair.second)]);
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::PredictResponse> Predict(const CampaignPlan& plan, const CampaignPool& pool,
                                            const ShelvedModel& model, const v1::PredictRequest& request) {
  const classify::SvmModel& svm = model.svm.model;
  FULCRUM_RETURN_IF_ERROR(CheckRequest(pool, svm, request));
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> rows, RowsOf(pool, model.normalize, request));
  const kernel::DenseFeatures features(std::move(rows));
  FULCRUM_RETURN_IF_ERROR(CheckKernel(svm.kernel, features, request));
  const Matrix<double> decisions = classify::DecisionValues(svm, *model.svm.features, features);
  const std::vector<ClassIndex> classes = classify::VoteClasses(svm, decisions.view());
  Matrix<double> probabilities;
  if (svm.has_probabilities()) {
    FULCRUM_ASSIGN_OR_RETURN(probabilities, classify::Probabilities(svm, decisions.view()));
  }
  v1::PredictResponse response = Describe(plan, model);
  for (std::size_t row = 0; row < classes.size(); ++row) {
    v1::Prediction& prediction = *response.add_predictions();
    prediction.set_value(plan.classes[static_cast<std::size_t>(classes[row])]);
    for (const double value : decisions.row(row)) prediction.add_decision_values(value);
    if (probabilities.empty()) continue;
    for (const double value : probabilities.row(row)) prediction.add_probabilities(value);
  }
  return response;
}

absl::StatusOr<std::string> ExportModel(const CampaignPlan& plan, const CampaignPool& pool, const ShelvedModel& model,
                                        v1::ModelFormat format) {
  if (format == v1::MODEL_FORMAT_LIBSVM) return classify::FormatLibsvmModel(model.svm.model, *model.svm.features);
  if (format != v1::MODEL_FORMAT_ONNX) {
    return absl::InvalidArgumentError(absl::StrCat("unknown model format ", static_cast<int>(format)));
  }
  const OnnxDescription description{.classes = plan.classes,
                                    .feature_names = pool.feature_names(),
                                    .features = pool.features().dims(),
                                    .metadata = {{"round", absl::StrCat(model.stored.round)},
                                                 {"trained_on", absl::StrCat(model.stored.trained_on)},
                                                 {"normalize", model.normalize}}};
  if (model.normalize.empty()) return FormatOnnxModel(model.svm, pool.normalizer(), description);
  FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool.NormalizerFor(model.normalize));
  return FormatOnnxModel(model.svm, *normalizer, description);
}

std::string ModelProcessOf(const storage::StoredModel& stored) {
  v1::ModelTrained record;
  if (stored.record.empty() || !ParseStoredText(stored.record, record).ok()) return {};
  return record.model_process();
}

absl::StatusOr<v1::PredictResponse> PredictStored(const CampaignPlan& plan, const CampaignPool& pool,
                                                  const storage::CampaignFolder& folder,
                                                  const storage::StoredModel& stored,
                                                  const v1::PredictRequest& request) {
  if (request.rows_size() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model of round ", stored.round, " is in the process '", ModelProcessOf(stored),
                     "', and the server has only its predictions of the pool: name examples by 'item_ids', or ask the "
                     "process"));
  }
  const auto named = static_cast<std::size_t>(request.item_ids_size());
  const std::size_t most = std::min(kMostRows, kMostAnswers / plan.classes.size());
  if (named < 1 || named > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request names ", named, " examples; it must be 1 to ", most, " of them at a time"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const storage::StoredPredictions predictions,
                           storage::ReadPredictionFile(folder, stored.file, stored.checksum));
  v1::PredictResponse response;
  response.set_round(stored.round);
  response.set_trained_on(stored.trained_on);
  for (const std::string& name : plan.classes) response.add_classes(name);
  for (const std::string& item : request.item_ids()) {
    const auto row = pool.ids().Find(item);
    if (!row) return absl::NotFoundError(absl::StrCat("the pool has no example '", item.substr(0, 200), "'"));
    if (*row >= predictions.rows) {
      return absl::FailedPreconditionError(absl::StrCat("the example '", item.substr(0, 200),
                                                        "' was added after the predictions of round ", stored.round,
                                                        "; it is predicted in the next round"));
    }
    const std::span<const float> values = predictions.row(*row);
    v1::Prediction& prediction = *response.add_predictions();
    const auto best = std::max_element(values.begin(), values.end()) - values.begin();
    prediction.set_value(plan.classes[static_cast<std::size_t>(best)]);
    for (const float value : values) prediction.add_probabilities(value);
  }
  return response;
}

}  // namespace fulcrum::pipeline
