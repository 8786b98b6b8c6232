#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/python/core/core_module.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/pool_source.h"
#include "stages/classify/svm_model.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "tbb/global_control.h"
#include "tbb/info.h"

namespace fulcrum::python {
namespace {

// Rows that are predicted at once take about so much.
constexpr std::size_t kBytesPerChunk = std::size_t{64} << 20;

class Stopwatch {
 public:
  /// Seconds since the last call.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Runs `body` with a limit on threads, in a scope that `stop` ends. What numerical code throws becomes a status.
template <typename Result, typename Body>
absl::StatusOr<Result> Guarded(std::size_t threads, std::stop_token stop, const Body& body) {
  const std::size_t most =
      threads > 0 ? threads : static_cast<std::size_t>(std::max(1, tbb::info::default_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, most);
  try {
    const StopScope scope(std::move(stop));
    return body();
  } catch (const StoppedOnRequest&) {
    return absl::CancelledError("interrupted");
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

/// Examples as the round reads them, and the settings that belong to them.
struct Prepared {
  std::unique_ptr<kernel::Features> features;
  ingest::Normalizer normalizer;
  std::shared_ptr<const pipeline::TunedSettings> tuned;
  pipeline::RoundSpec spec;
  std::string normalize;
  std::vector<pipeline::StageSeconds> seconds;
};

absl::StatusOr<Prepared> Prepare(const Examples& examples, const Labels& labels, const Settings& settings) {
  FULCRUM_RETURN_IF_ERROR(CheckValues(examples));
  Prepared prepared{.features = nullptr,
                    .normalizer = {},
                    .tuned = nullptr,
                    .spec = settings.spec,
                    .normalize = settings.normalize,
                    .seconds = {}};
  Stopwatch watch;
  ingest::PoolFeatures copy;
  if (settings.tune) {
    copy = CopyOf(examples, 0, RowsOf(examples));
    pipeline::MakeDenseIfWorthwhile(copy);
    FULCRUM_ASSIGN_OR_RETURN(pipeline::TunedSettings tuned,
                             pipeline::Tune(pipeline::MemoryFeatureSource(copy), labels.by_row, settings.spec.seed));
    prepared.normalize = tuned.chosen.normalize;
    pipeline::UseChoice(tuned.chosen, labels.class_count, prepared.spec.svm);
    if (!settings.leverage_given) prepared.spec.leverage_kernel = tuned.leverage_kernel;
    prepared.tuned = std::make_shared<const pipeline::TunedSettings>(std::move(tuned));
    prepared.spec.tuning = prepared.tuned;
    prepared.seconds.push_back({"tune", watch.Lap()});
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(prepared.normalize));
  if (steps.empty() && !settings.tune) prepared.features = FeaturesInPlace(examples);
  if (prepared.features == nullptr) {
    if (copy.rows() == 0) copy = CopyOf(examples, 0, RowsOf(examples));
    FULCRUM_ASSIGN_OR_RETURN(prepared.normalizer, ingest::Normalizer::FitInPlace(steps, copy));
    prepared.features = pipeline::MakeFeatures(std::move(copy));
  }
  prepared.seconds.push_back({"normalize", watch.Lap()});
  const std::size_t memory = settings.memory_bytes > 0 ? settings.memory_bytes : pipeline::UsableMemoryBytes();
  const auto labeled = labels.by_row.size() - static_cast<std::size_t>(std::ranges::count(labels.by_row, kUnlabeled));
  FULCRUM_ASSIGN_OR_RETURN(prepared.spec.memory_bytes, pipeline::MemoryForEngines(memory, *prepared.features, labeled));
  return prepared;
}

pipeline::RoundInput InputOf(const Labels& labels) {
  pipeline::RoundInput input;
  input.class_count = labels.class_count;
  input.labels = labels.by_row;
  input.predictions = labels.predictions;
  input.given_probabilities = labels.probabilities;
  input.barred = labels.barred;
  input.queries_so_far = labels.by_row.size() - static_cast<std::size_t>(std::ranges::count(labels.by_row, kUnlabeled));
  return input;
}

}  // namespace

absl::StatusOr<Selected> SelectInMemory(const Examples& examples, const Labels& labels, const Settings& settings,
                                        std::stop_token stop) {
  return Guarded<Selected>(settings.threads, stop, [&]() -> absl::StatusOr<Selected> {
    FULCRUM_ASSIGN_OR_RETURN(Prepared prepared, Prepare(examples, labels, settings));
    pipeline::RoundRunner runner(std::move(prepared.spec), *prepared.features);
    FULCRUM_ASSIGN_OR_RETURN(pipeline::RoundResult result, runner.Run(InputOf(labels), {}, stop));
    Selected selected{std::move(result), std::move(prepared.tuned), std::move(prepared.seconds)};
    selected.seconds.insert(selected.seconds.end(), selected.round.seconds.begin(), selected.round.seconds.end());
    return selected;
  });
}

absl::StatusOr<Predictor> Train(const Examples& examples, const Labels& labels, const Settings& settings,
                                std::stop_token stop) {
  return Guarded<Predictor>(settings.threads, stop, [&]() -> absl::StatusOr<Predictor> {
    FULCRUM_ASSIGN_OR_RETURN(Prepared prepared, Prepare(examples, labels, settings));
    pipeline::RoundInput input = InputOf(labels);
    input.always_classify = input.probabilities = true;
    input.select = false;
    const pipeline::ClassifierChoice choice =
        prepared.tuned != nullptr ? prepared.tuned->chosen
                                  : pipeline::ClassifierChoice{.normalize = prepared.normalize,
                                                               .classifier = prepared.spec.svm.classifier,
                                                               .kernel = prepared.spec.svm.kernel,
                                                               .c = prepared.spec.svm.c};
    pipeline::RoundRunner runner(std::move(prepared.spec), *prepared.features);
    FULCRUM_ASSIGN_OR_RETURN(const pipeline::RoundResult result, runner.Run(input, {}, stop));
    FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, classify::SerializeSvm(*result.model, *prepared.features));
    FULCRUM_ASSIGN_OR_RETURN(classify::SavedSvm svm, classify::ParseSvm(bytes));
    return Predictor{std::move(svm), std::move(prepared.normalizer), ColsOf(examples), choice};
  });
}

absl::StatusOr<Predictions> Predict(const Predictor& predictor, const Examples& examples, std::size_t threads,
                                    std::stop_token stop) {
  if (ColsOf(examples) != predictor.cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("X has ", ColsOf(examples), " features, but the classifier was trained on ", predictor.cols));
  }
  return Guarded<Predictions>(threads, std::move(stop), [&]() -> absl::StatusOr<Predictions> {
    FULCRUM_RETURN_IF_ERROR(CheckValues(examples));
    const classify::SvmModel& model = predictor.svm.model;
    const std::size_t rows = RowsOf(examples);
    const std::size_t per_chunk =
        std::max<std::size_t>(1, kBytesPerChunk / sizeof(double) / std::max<std::size_t>(1, predictor.cols));
    Predictions predictions{{}, Matrix<double>(rows, model.pairs.size()), Matrix<double>(rows, model.class_count)};
    predictions.classes.reserve(rows);
    for (std::size_t first = 0; first < rows; first += per_chunk) {
      const std::size_t count = std::min(per_chunk, rows - first);
      ingest::PoolFeatures chunk = CopyOf(examples, first, count);
      predictor.normalizer.Apply(chunk);
      chunk.MakeDense();
      const kernel::DenseFeatures features(std::move(chunk.dense()));
      RowList all(count);
      std::iota(all.begin(), all.end(), RowIndex{0});
      FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(model.kernel, features.squared_norms(), all));
      const Matrix<double> decisions = classify::DecisionValues(model, *predictor.svm.features, features);
      CopyMatrix<double>(decisions.view(), predictions.decisions.view().Rows(first, count));
      const std::vector<ClassIndex> classes = classify::VoteClasses(model, decisions.view());
      predictions.classes.insert(predictions.classes.end(), classes.begin(), classes.end());
      FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, classify::Probabilities(model, decisions.view()));
      CopyMatrix<double>(probabilities.view(), predictions.probabilities.view().Rows(first, count));
    }
    return predictions;
  });  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the matrices are moved into the answer.
}

}  // namespace fulcrum::python
