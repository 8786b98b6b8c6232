// What the extension module of the Python package consists of: examples, rounds on them, and long calls.
//
// Arrays of another owner, such as numpy's, as the examples of a round.
//
// Views do not own memory: the arrays must outlive everything that is made from them. Thread-safe for reading.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/model_file.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"

namespace fulcrum::python {

/// A sparse matrix by rows, as scipy.sparse.csr_matrix has it; columns ascend within a row.
struct CsrView {
  std::size_t cols = 0;
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> columns;
  std::span<const double> values;
};

/// Examples, one per row.
using Examples = std::variant<MatrixView<const double>, MatrixView<const float>, CsrView>;

std::size_t RowsOf(const Examples& examples);
std::size_t ColsOf(const Examples& examples);

/// InvalidArgument that names the first row with a value that is not a finite number, or whose columns do not ascend or
/// are outside of the matrix.
absl::Status CheckValues(const Examples& examples);

/// A copy of some consecutive rows in double precision, dense or sparse as the examples are.
ingest::PoolFeatures CopyOf(const Examples& examples, std::size_t first, std::size_t count);

/// Features that read the examples where they are. Null for single precision, which has to be copied.
std::unique_ptr<kernel::Features> FeaturesInPlace(const Examples& examples);

// A round, and a classifier, on examples in memory: what `fulcrum select` does with files.
//
// The steps are those of the command (tune, normalise, one round of pipeline/round), with the same defaults, so the
// same examples and labels give the same batch. No Python in here. Pure functions, thread-safe.

/// The options of `fulcrum select` that shape a result. Class weights are in spec.svm.
struct Settings {
  pipeline::RoundSpec spec;
  std::string normalize = "zscore,unit";  ///< unless it is tuned
  bool tune = true;
  bool leverage_given = false;   ///< the leverage kernel was given and does not follow the tuning
  std::size_t memory_bytes = 0;  ///< that the process may use; 0: three quarters of the machine's
  std::size_t threads = 0;       ///< 0: one per core
};

struct Labels {
  std::size_t class_count = 0;
  std::span<const ClassIndex> by_row;
  std::optional<std::span<const ClassIndex>> predictions = std::nullopt;
  std::optional<std::span<const float>> probabilities = std::nullopt;  ///< with `predictions`: rows x classes
  std::span<const RowIndex> barred = {};  ///< without a label, and not to be selected; ascending
};

struct Selected {
  pipeline::RoundResult round;
  std::shared_ptr<const pipeline::TunedSettings> tuned;  ///< null unless it was tuned
  std::vector<pipeline::StageSeconds> seconds;
};

/// CANCELLED if it was stopped, ResourceExhausted if there is not enough memory; other errors as in RoundRunner::Run.
absl::StatusOr<Selected> SelectInMemory(const Examples& examples, const Labels& labels, const Settings& settings,
                                        std::stop_token stop);

/// A trained classifier that predicts other examples. Thread-safe for reading.
struct Predictor {
  classify::SavedSvm svm;
  ingest::Normalizer normalizer;
  std::size_t cols = 0;
  pipeline::ClassifierChoice choice;  ///< the settings in use, tuned or given
};

struct Predictions {
  std::vector<ClassIndex> classes;
  Matrix<double> decisions;      ///< rows x pairs of classes
  Matrix<double> probabilities;  ///< rows x classes
};

/// Trains on all labeled rows. FailedPrecondition if fewer than two classes have labels.
absl::StatusOr<Predictor> Train(const Examples& examples, const Labels& labels, const Settings& settings,
                                std::stop_token stop);

/// InvalidArgument for other columns than the classifier was trained on.
absl::StatusOr<Predictions> Predict(const Predictor& predictor, const Examples& examples, std::size_t threads,
                                    std::stop_token stop);

// Long computations that Ctrl-C ends.
//
// Python handles signals on the main thread only, and only between bytecodes. A computation therefore runs on a thread
// of its own while the calling thread, without the GIL, waits for it and asks for signals several times per second.
// Threads are kept for the next call, because linear algebra libraries keep buffers per thread.

/// A thread that runs one job at a time, until the process ends. A child of fork() has none of its parent's threads and
/// makes its own.
class CallThread {
 public:
  /// An idle thread, or a new one.
  static std::shared_ptr<CallThread> Take();
  /// Back to the idle ones.
  static void Return(std::shared_ptr<CallThread> thread);

  void Post(std::function<void()> job);

 private:
  CallThread() = default;
  void Loop();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::function<void()> job_;
};

/// Returns body(stop_token). If a signal handler raises, as that of Ctrl-C does, the computation is asked to stop, and
/// the exception is raised when it has.
template <typename Body>
auto RunInterruptibly(const Body& body) {
  constexpr auto kBetweenChecks = std::chrono::milliseconds(50);
  std::stop_source stop;
  using Result = decltype(body(stop.get_token()));
  std::packaged_task<Result()> task([&] { return body(stop.get_token()); });
  std::future<Result> result = task.get_future();
  bool interrupted = false;
  {
    const pybind11::gil_scoped_release release;
    const std::shared_ptr<CallThread> thread = CallThread::Take();
    thread->Post([&task] { task(); });
    while (result.wait_for(kBetweenChecks) != std::future_status::ready) {
      if (interrupted) continue;
      const pybind11::gil_scoped_acquire acquire;
      interrupted = PyErr_CheckSignals() != 0;
      if (interrupted) stop.request_stop();
    }
    CallThread::Return(thread);
  }
  if (interrupted) throw pybind11::error_already_set();
  return result.get();
}

}  // namespace fulcrum::python
