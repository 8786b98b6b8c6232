#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

std::string BytesIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <typename Value>
void AppendValues(const std::vector<Value>& values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
}

/// False if there are not so many bytes left.
template <typename Value>
bool TakeValues(std::uint64_t count, std::string_view& bytes, std::vector<Value>& values) {
  if (count > bytes.size() / sizeof(Value)) return false;
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(Value));
  bytes.remove_prefix(count * sizeof(Value));
  return true;
}

job::Model ModelMessage(const classify::SvmModel& model) {
  job::Model message;
  message.set_class_count(model.class_count);
  message.set_kernel_type(static_cast<int>(model.kernel.type));
  message.set_sigma(model.kernel.sigma);
  message.set_offset(model.kernel.offset);
  message.set_degree(model.kernel.degree);
  message.set_normalize(model.kernel.normalize);
  for (const classify::SvmPair& pair : model.pairs) {
    job::ModelPair& added = *message.add_pairs();
    added.set_first(pair.first);
    added.set_second(pair.second);
    added.set_rho(pair.rho);
    added.set_objective(pair.objective);
    added.set_iterations(pair.iterations);
    added.set_support_count(pair.support_count);
    added.set_converged(pair.converged);
    added.set_has_platt(pair.has_platt);
    added.set_platt_a(pair.platt.a);
    added.set_platt_b(pair.platt.b);
  }
  message.mutable_support_rows()->Add(model.support_rows.begin(), model.support_rows.end());
  for (std::size_t i = 0; i < model.coefficients.rows(); ++i) {
    const std::span<const double> row = model.coefficients.row(i);
    message.mutable_coefficients()->Add(row.begin(), row.end());
  }
  return message;
}

/// Null if the numbers do not fit each other.
std::shared_ptr<const classify::SvmModel> ModelFrom(const job::Model& message, std::size_t rows, std::size_t classes) {
  const auto support = static_cast<std::size_t>(message.support_rows_size());
  const auto pairs = static_cast<std::size_t>(message.pairs_size());
  const auto is_class = [&](std::int32_t index) { return index >= 0 && static_cast<std::size_t>(index) < classes; };
  bool fits = message.class_count() == classes &&
              static_cast<std::size_t>(message.coefficients_size()) == support * pairs && message.kernel_type() >= 0 &&
              message.kernel_type() <= static_cast<int>(kernel::KernelType::kCosine);
  auto model = std::make_shared<classify::SvmModel>();
  model->class_count = classes;
  model->kernel = {.type = static_cast<kernel::KernelType>(message.kernel_type()),
                   .sigma = message.sigma(),
                   .offset = message.offset(),
                   .degree = message.degree(),
                   .normalize = message.normalize()};
  for (const job::ModelPair& pair : message.pairs()) {
    fits = fits && is_class(pair.first()) && is_class(pair.second());
    model->pairs.push_back({.first = pair.first(),
                            .second = pair.second(),
                            .rho = pair.rho(),
                            .objective = pair.objective(),
                            .iterations = pair.iterations(),
                            .support_count = pair.support_count(),
                            .converged = pair.converged(),
                            .has_platt = pair.has_platt(),
                            .platt = {pair.platt_a(), pair.platt_b()}});
  }
  model->support_rows.assign(message.support_rows().begin(), message.support_rows().end());
  for (std::size_t i = 0; i < support; ++i) {
    fits = fits && model->support_rows[i] < rows && (i == 0 || model->support_rows[i - 1] < model->support_rows[i]);
  }
  if (!fits) return nullptr;
  model->coefficients = Matrix<double>::CopyOf(ConstMatrixView(message.coefficients().data(), support, pairs));
  return model;
}

job::RoundOutcome OutcomeMessage(const RoundResult& result) {
  job::RoundOutcome outcome;
  for (const select::Pick& pick : result.selection.picks) {
    job::Pick& added = *outcome.add_picks();
    added.set_row(pick.row);
    added.set_class_index(pick.class_index);
    added.set_leverage(pick.leverage);
    added.set_gain(pick.gain);
  }
  outcome.set_has_certificate(result.selection.has_certificate);
  outcome.set_value(result.selection.certificate.value);
  outcome.set_upper_bound(result.selection.certificate.upper_bound);
  for (const StageSeconds& stage : result.seconds) {
    job::StageTime& added = *outcome.add_stages();
    added.set_stage(stage.stage);
    added.set_seconds(stage.seconds);
  }
  for (const ClassReport& report : result.classes) {
    outcome.set_eigen_products(outcome.eigen_products() + report.products);
  }
  if (result.svm) {
    outcome.mutable_training()->set_support_vectors(result.svm->support_vectors);
    outcome.mutable_training()->set_dual_objective(result.svm->dual_objective);
    outcome.mutable_training()->set_iterations(result.svm->iterations);
    outcome.mutable_training()->set_decision_columns_computed(result.svm->decision_columns_computed);
  }
  if (result.model) *outcome.mutable_model() = ModelMessage(*result.model);
  if (result.tuning != nullptr) outcome.set_tuning(ToProto(*result.tuning).SerializeAsString());
  outcome.set_predicted_rows(result.predicted.size());
  outcome.set_leverage_rows(result.leverage.size());
  return outcome;
}

/// Without the values by row. Nothing if it does not fit the pool.
std::optional<RoundResult> ResultFrom(const job::RoundOutcome& outcome, std::size_t rows, std::size_t classes) {
  RoundResult result;
  for (const job::Pick& pick : outcome.picks()) {
    const bool fits = pick.row() < rows && pick.class_index() >= kUnlabeled &&
                      pick.class_index() < static_cast<std::int64_t>(classes);
    if (!fits) return std::nullopt;
    result.selection.picks.push_back(
        {.row = pick.row(), .class_index = pick.class_index(), .leverage = pick.leverage(), .gain = pick.gain()});
  }
  result.selection.has_certificate = outcome.has_certificate();
  result.selection.certificate = {outcome.value(), outcome.upper_bound()};
  for (const job::StageTime& stage : outcome.stages()) result.seconds.push_back({stage.stage(), stage.seconds()});
  ClassReport all;
  all.products = outcome.eigen_products();
  result.classes.push_back(all);
  if (outcome.has_training()) {
    const job::Training& training = outcome.training();
    result.svm = SvmReport{.support_vectors = training.support_vectors(),
                           .dual_objective = training.dual_objective(),
                           .iterations = training.iterations(),
                           .warm = false,
                           .decision_columns_computed = training.decision_columns_computed()};
  }
  if (outcome.has_model() != outcome.has_training()) return std::nullopt;
  if (outcome.has_model()) {
    result.model = ModelFrom(outcome.model(), rows, classes);
    if (result.model == nullptr) return std::nullopt;
  }
  if (!outcome.tuning().empty()) {
    v1::ClassifierTuning tuning;
    if (!tuning.ParseFromString(outcome.tuning())) return std::nullopt;
    result.tuning = TuningFrom(tuning);
  }
  return result;
}

}  // namespace

RoundFiles RoundFiles::NextTo(const std::string& plan) {
  return RoundFiles(std::filesystem::absolute(plan).parent_path().string());
}

absl::Status RoundFiles::WritePlan(const job::RoundPlan& plan) const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder '", folder_, "': ", error.message()));
  return ReplaceFile(this->plan(), plan.SerializeAsString());
}

absl::StatusOr<job::RoundPlan> RoundFiles::ReadPlan() const {
  std::error_code ignored;
  if (!std::filesystem::exists(plan(), ignored)) {
    return absl::NotFoundError(absl::StrCat(
        "there is no plan '", plan(), "'; the data folder of the daemon must be visible here under the same path"));
  }
  job::RoundPlan read;
  if (read.ParseFromString(BytesIn(plan())) && !read.folder().empty()) return read;
  return absl::DataLossError(absl::StrCat("'", plan(), "' is not the plan of a round"));
}

void RoundFiles::WriteProgress(const Progress& progress) const {
  ReplaceFile(folder_ + "/progress", absl::StrCat(progress.stage, " ", progress.done, " ", progress.total, "\n"),
              /*durable=*/false)
      .IgnoreError();
}

std::optional<RoundFiles::Progress> RoundFiles::ReadProgress() const {
  std::ifstream file(folder_ + "/progress");
  Progress progress;
  if (file >> progress.stage >> progress.done >> progress.total) return progress;
  return std::nullopt;
}

std::string RoundFiles::ReadOutput() const {
  constexpr std::streamoff kMostBytes = 16 << 10;
  std::ifstream file(folder_ + "/output", std::ios::binary | std::ios::ate);
  if (!file) return "";
  file.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(file.tellg()) - kMostBytes));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::Status RoundFiles::WriteOutcome(const job::RoundPlan& plan, const absl::StatusOr<RoundResult>& result) const {
  job::RoundOutcome outcome = result.ok() ? OutcomeMessage(*result) : job::RoundOutcome();
  outcome.set_token(plan.token());
  outcome.set_code(static_cast<int>(result.status().code()));
  outcome.set_message(PrintableText(std::string(result.status().message())));
  const std::string message = outcome.SerializeAsString();
  const std::uint64_t size = message.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += message;
  if (result.ok()) {
    AppendValues(result->predicted, bytes);
    AppendValues(result->leverage, bytes);
  }
  return ReplaceFile(folder_ + "/outcome", bytes);
}

std::optional<absl::StatusOr<RoundResult>> RoundFiles::ReadOutcome(const job::RoundPlan& plan,
                                                                   std::size_t classes) const {
  const std::string file = BytesIn(folder_ + "/outcome");
  std::string_view bytes = file;
  std::vector<std::uint64_t> size;
  job::RoundOutcome outcome;
  if (!TakeValues(1, bytes, size) || size[0] > bytes.size() || size[0] > std::numeric_limits<int>::max())
    return std::nullopt;
  if (!outcome.ParseFromArray(bytes.data(), static_cast<int>(size[0])) || outcome.token() != plan.token()) {
    return std::nullopt;
  }
  bytes.remove_prefix(size[0]);
  if (outcome.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(outcome.code()), outcome.message());
  }
  const auto fits = [&](std::uint64_t rows) { return rows == 0 || rows == plan.rows(); };
  std::optional<RoundResult> result = ResultFrom(outcome, plan.rows(), classes);
  if (!result || !fits(outcome.predicted_rows()) || !fits(outcome.leverage_rows())) return std::nullopt;
  if (!TakeValues(outcome.predicted_rows(), bytes, result->predicted)) return std::nullopt;
  if (!TakeValues(outcome.leverage_rows(), bytes, result->leverage) || !bytes.empty()) return std::nullopt;
  for (const ClassIndex index : result->predicted) {
    if (index < kUnlabeled || index >= static_cast<ClassIndex>(classes)) return std::nullopt;
  }
  return absl::StatusOr<RoundResult>(*std::move(result));
}

}  // namespace fulcrum::pipeline
