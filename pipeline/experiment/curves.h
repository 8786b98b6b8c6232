// The curves of an experiment, found by task and strategy. Immutable after construction, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

// What one run of one strategy gives: how good the classifier is after every round. Plain values.

/// The name under which the classifier trained on the whole training half is recorded, next to the strategies.
inline constexpr char kFullData[] = "full-data";

struct CurvePoint {
  std::size_t round = 0;              ///< 0 is the start, before any query
  std::size_t labels = 0;             ///< with simulated annotators votes, next to the labels of the start
  double accuracy = 0;                ///< on the test half
  double f1 = 0;                      ///< of the positive class, on the test half
  double queried_positive_share = 0;  ///< among all queries so far; not a number before the first
  double train_seconds = 0;
  double predict_seconds = 0;
  double select_seconds = 0;  ///< to choose the queries of this round; 0 at the start
  double macro_f1 = 0;        ///< mean of the F1 scores of all classes of the test half
  /// Expected calibration error of the predicted class's probability, on the test half; not a number if the classifier
  /// has no probabilities.
  double calibration_error = std::numeric_limits<double>::quiet_NaN();
  /// Share of the labels so far that are right, with simulated annotators; not a number without.
  double label_accuracy = std::numeric_limits<double>::quiet_NaN();
  double paused_spammers = 0;  ///< simulated annotators who answer at random and were paused
  double paused_others = 0;    ///< other simulated annotators who were paused
  double cost = 0;             ///< of the labels so far, if they cost something
  double seconds = 0;          ///< until then, if simulated annotators take time to answer
};

struct Curve {
  std::string task;
  std::string strategy;  ///< its name in the experiment, or kFullData
  std::size_t run = 0;
  std::vector<CurvePoint> points;
};

/// What curves are compared by.
enum class Metric { kAccuracy, kF1, kMacroF1, kLabelAccuracy };

inline double ValueOf(const CurvePoint& point, Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return point.accuracy;
    case Metric::kF1:
      return point.f1;
    case Metric::kMacroF1:
      return point.macro_f1;
    case Metric::kLabelAccuracy:
      return point.label_accuracy;
  }
  return 0;
}

/// "accuracy", "F1", "macro-F1" or "accuracy of the labels".
std::string MetricName(Metric metric);

/// The area under a curve up to a round by the trapezoid rule, over the number of rounds: a mean of the metric.
double AreaUnder(const Curve& curve, std::size_t last_round, Metric metric);

class CurveSet {
 public:
  /// In the order of the tables: by task, strategy and run, in the order of the caller.
  explicit CurveSet(std::vector<Curve> curves) : curves_(std::move(curves)) {}

  const std::vector<Curve>& all() const { return curves_; }
  /// The curves of a strategy on a task, by ascending run.
  std::vector<const Curve*> Of(const std::string& task, const std::string& strategy) const;
  /// Names that have curves, in the order of their first curve; kFullData is not a strategy.
  std::vector<std::string> Tasks() const;
  std::vector<std::string> StrategiesOf(const std::string& task) const;

  /// The metric at one round, one entry per run that reached it, in the order of runs.
  std::vector<double> ValuesAt(const std::string& task, const std::string& strategy, std::size_t round,
                               Metric metric) const;
  /// The mean of the full-data line; not a number if there is none.
  double FullDataMean(const std::string& task, Metric metric) const;
  /// The last round that every run of the task's strategies has.
  std::size_t LastRound(const std::string& task) const;

 private:
  std::vector<Curve> curves_;
};

// curves.csv: every point of every curve.

/// task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds,macro_f1,
/// calibration_error,label_accuracy,paused_spammers,paused_others,cost,seconds. The share of the positive class among
/// the queries so far is empty before the first query, and the calibration error if the classifier has no
/// probabilities.
std::string CurvesTable(const CurveSet& curves);

// The file in which finished runs of an experiment are recorded, so that a stopped experiment can be resumed.
//
// One line per curve, appended and made durable when the curve is complete; a line that was truncated by a crash is
// detected by its checksum and removed. Thread-safe for Append.

/// A curve and the fingerprint of everything that decides it.
struct JournalEntry {
  std::uint64_t fingerprint = 0;
  Curve curve = {};
};

class RunJournal {
 public:
  /// Opens or creates the file and reads its valid lines.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const std::string& path);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  /// The content of the file when it was opened.
  const std::vector<JournalEntry>& entries() const { return entries_; }
  /// After OK the curve is durable.
  absl::Status Append(const JournalEntry& entry);

 private:
  RunJournal(std::string path, int descriptor);
  absl::Status Load();

  const std::string path_;
  const int descriptor_;
  std::vector<JournalEntry> entries_;
  std::mutex mutex_;
};

/// A line of the journal without its end, and back; nothing if it is damaged.
std::string FormatJournalLine(const JournalEntry& entry);
std::optional<JournalEntry> ParseJournalLine(const std::string& line);

}  // namespace fulcrum::pipeline
