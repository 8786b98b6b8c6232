#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/round/tuning.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kTune[] = "tune";

bool SameModel(const ClassifierChoice& a, const ClassifierChoice& b) {
  return a.normalize == b.normalize && a.classifier == b.classifier && a.kernel == b.kernel && a.c == b.c &&
         a.class_weights == b.class_weights;
}

/// What the numerical stages throw becomes a status, as in the graph of a round.
absl::StatusOr<TunedSettings> TuneWithStop(const FeatureSource& source, const RoundInput& input, const RoundSpec& spec,
                                           std::stop_token stop) {
  try {
    const StopScope scope(std::move(stop));
    return Tune(source, input.labels, spec.seed, input.weights, spec.svm.class_weights.empty());
  } catch (const StoppedOnRequest&) {
    return absl::CancelledError("stopped on request");
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

void UseChoice(const ClassifierChoice& choice, std::size_t class_count, classify::SvmParameters& parameters) {
  parameters.classifier = choice.classifier;
  parameters.kernel = choice.kernel;
  parameters.c = choice.c;
  if (!parameters.class_weights.empty() || choice.class_weights.empty()) return;
  parameters.class_weights = choice.class_weights;
  parameters.class_weights.resize(class_count, 1.0);
}

std::string DescribeNormalization(const std::string& normalize) {
  const std::size_t digits = normalize.find('@');
  return digits == std::string::npos ? normalize : normalize.substr(0, digits) + " weighed by relevance";
}

std::string DescribeChoice(const ClassifierChoice& choice) {
  return absl::StrFormat("%s, %s, %s, C %g%s", DescribeNormalization(choice.normalize), choice.classifier,
                         kernel::DescribeKernel(choice.kernel), choice.c,
                         choice.class_weights.empty() ? "" : ", classes weighted");
}

absl::Status TunedRunner::ChooseSettings(const FeatureSource& source, const RoundInput& input,
                                         const ProgressCallback& progress, std::stop_token stop) {
  if (settings_ != nullptr && !ShouldTuneAgain(*settings_, input.labels)) return absl::OkStatus();
  if (progress) progress(kTune, 0, 1);
  absl::StatusOr<TunedSettings> chosen = TuneWithStop(source, input, spec_, std::move(stop));
  if (!chosen.ok()) return {chosen.status().code(), absl::StrCat(kTune, ": ", chosen.status().message())};
  if (progress) progress(kTune, 1, 1);
  settings_ = std::make_shared<const TunedSettings>(*std::move(chosen));
  return absl::OkStatus();
}

absl::Status TunedRunner::PrepareRunner(const FeatureSource& source, std::size_t class_count) {
  const ClassifierChoice& choice = settings_->chosen;
  const bool same_features = prepared_for_ != nullptr && prepared_for_->chosen.normalize == choice.normalize;
  const bool same_model = same_features && SameModel(prepared_for_->chosen, choice);
  const bool grown = features_.pool != nullptr && features_.pool->rows() != source.rows();
  const PreparedFeatures before = features_;  // the runner refers to it until it has moved
  if (!same_features || grown) {
    FULCRUM_ASSIGN_OR_RETURN(features_, source.Prepare(choice.normalize));
  }
  if (same_model) {
    if (grown) runner_->MoveTo(*features_.pool);
  } else {
    RoundSpec spec = spec_;
    UseChoice(choice, class_count, spec.svm);
    if (spec.leverage_follows) spec.leverage_kernel = settings_->leverage_kernel;
    spec.tuning = settings_;
    runner_ = std::make_unique<RoundRunner>(std::move(spec), *features_.pool, *features_.predicted);
    runner_->RecallLandmarks(std::exchange(recalled_landmarks_, {}));
  }
  // A choice that was made again is on record with what it was based on this time.
  if (prepared_for_ != settings_) runner_->NoteTuning(settings_);
  prepared_for_ = settings_;
  return absl::OkStatus();
}

absl::StatusOr<RoundResult> TunedRunner::Run(const FeatureSource& source, const RoundInput& input,
                                             const ProgressCallback& progress, std::stop_token stop,
                                             const CommitCallback& commit) {
  const auto begun = std::chrono::steady_clock::now();
  const std::shared_ptr<const TunedSettings> before = settings_;
  FULCRUM_RETURN_IF_ERROR(ChooseSettings(source, input, progress, stop));
  FULCRUM_RETURN_IF_ERROR(PrepareRunner(source, input.class_count));
  RoundInput with_time = input;
  with_time.before = {{kTune, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()}};
  absl::StatusOr<RoundResult> result = runner_->Run(with_time, progress, std::move(stop), commit);
  if (!result.ok()) {
    // Only settings of a finished round are on record, and a runner in another process would start from those.
    settings_ = before;
    return result.status();
  }
  return result;
}

std::map<ClassIndex, RowList> TunedRunner::Landmarks() const {
  return runner_ == nullptr ? recalled_landmarks_ : runner_->Landmarks();
}

}  // namespace fulcrum::pipeline
