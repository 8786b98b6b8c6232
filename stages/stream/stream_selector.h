// Stream-based selection: each row that arrives is answered at once with "label it" or not.
//
// With z(x), the uncertainty and the novelty of a row from the StreamModel, and M = (lambda I + sum of z z' over the
// labeled and the taken rows)^-1,
//
//   leverage(x) = z(x)' M z(x) / (the mean of it over the reference rows)
//   score(x)    = (0.05 + uncertainty(x)) (leverage(x) + weight novelty(x))
//
// The leverage is the ridge leverage of the row against what has a label or will get one: a row like the average one of
// the pool has 1, and taking a row lowers that of the rows that resemble it. lambda is the mean of |z|^2 over the
// reference rows. A row whose score reaches the threshold is taken (BudgetThreshold), and every row enters the drift
// test (DriftTest). A row costs O(landmarks (features + rank)), a taken one O(rank^2) more.
//
// Deterministic: the decisions are a function of the model, the options and the rows so far. State() and Restore()
// continue with the same decisions in another process. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/model_file.h"
#include "stages/core/matrix.h"
#include "stages/stream/stream_model.h"

namespace fulcrum::stream {

// The threshold of a stream: rows whose score reaches it are taken, and it moves so that the taken rows keep a budget.
//
// The threshold is a quantile of the latest scores, so that it follows them wherever they drift. Which quantile depends
// on the balance, the labels that the budget allows so far minus those that were taken. With the slack s, 1 label or
// 0.5 percent of the budget so far, whichever is more, and b the share of rows that the budget allows:
//
//   share that is taken now = b^(1 - balance / s)   if the balance is positive: 1 at a balance of s
//                             b (1 + balance / s)   if it is negative: 0 at -s
//
// So the balance never leaves [-s, s] whatever the scores are, which is the guarantee: after n rows at least b n - s
// and at most b n + s rows are taken. A budget per time gives the same to the labels that are due at that rate; what is
// due beyond the slack because nothing arrived lapses, so that a pause is not followed by a burst.
//
// Deterministic: a function of the scores and times. Not thread-safe. The state is a few numbers and the window.

/// How many rows of a stream may be taken. One of the two is set.
struct Budget {
  double share = 0;       ///< of the rows, above 0 and at most 1
  double per_second = 0;  ///< labels in a second
};

/// InvalidArgument unless one of the two is set, and to something possible.
absl::Status ValidateBudget(const Budget& budget);

class BudgetThreshold {
 public:
  /// The budget must be valid.
  explicit BudgetThreshold(const Budget& budget);

  struct Answer {
    double threshold = 0;  ///< infinite if nothing may be taken now, minus infinity if everything must be
    bool take = false;
  };
  /// The next row. `seconds` is the time since any fixed moment; if it goes back, no time has passed. A budget per
  /// share ignores it.
  Answer Offer(double score, double seconds);

  /// A row that was decided before, after the state that was read.
  void Repeat(double score, double seconds, bool taken);

  /// What scores mean has changed: the threshold is learned anew, and the budget goes on.
  void ForgetScores();

  std::uint64_t rows() const { return rows_; }
  std::uint64_t taken() const { return taken_; }
  /// The labels that the budget allows so far.
  double due() const { return due_; }

  void Write(classify::ByteWriter& out) const;
  /// InvalidArgument if this is not the state of the same budget.
  absl::Status Read(classify::ByteReader& in);

 private:
  void Accrue(double seconds);
  double Slack() const;
  /// The share of rows to take at this balance.
  double WantedShare() const;
  /// Scores that must be known before one can be above the threshold.
  std::size_t FirstScores() const;
  double ThresholdFor(double share) const;
  void Remember(double score);

  Budget budget_;
  std::size_t window_size_;
  std::uint64_t rows_ = 0;
  std::uint64_t taken_ = 0;
  double due_ = 0;
  double latest_ = 0;
  double gap_ = 0;              // per time: seconds between rows, a moving mean
  std::size_t oldest_ = 0;      // in window_
  std::vector<double> window_;  // the latest scores
  std::vector<double> sorted_;  // the same, ascending
};

// Whether the rows that arrive still are like those of the pool: a kernel two-sample test in linear time.
//
// The statistic compares a window of m arriving rows with the r reference rows of a StreamModel in its coordinates z,
// whose inner products approximate the kernel: T = m r / (m + r) |mean of z over the window - mean over the
// reference|^2, the squared maximum mean discrepancy of the two samples. A row costs O(rank). If both are samples of
// one distribution, T is distributed as the sum of lambda_j chi_j^2 with lambda the eigenvalues of the covariance of z
// (Gretton, Fukumizu, Harchaoui and Sriperumbudur, A Fast, Consistent Kernel Two-Sample Test, 2009); its quantile is
// that of many draws from there. So the false-alarm rate is that of one window: with 0.001, one window of a thousand
// raises an alarm although nothing has changed. Rows are taken to be independent of each other.
//
// What the kernel cannot see is not tested: a linear kernel sees means only.
//
// Deterministic. Not thread-safe.

struct DriftOptions {
  std::size_t window = 500;         ///< rows of a test
  double false_alarm_rate = 0.001;  ///< of a window
};

struct DriftReport {
  std::uint64_t windows = 0;  ///< tested so far
  std::uint64_t alarms = 0;
  double statistic = 0;   ///< of the last window, over the value that raises an alarm
  bool drifting = false;  ///< whether the last window raised one
};

/// Values above it are an alarm: the quantile 1 - rate of the sum of weights[j] times squared standard normals.
double AlarmValue(std::span<const double> weights, double rate, std::uint64_t seed);

class DriftTest {
 public:
  /// InvalidArgument for a window of no rows or a rate that is not between 0.0001 and 0.5.
  static absl::StatusOr<DriftTest> Make(std::shared_ptr<const StreamModel> model, const DriftOptions& options);

  /// The next row; true if it completes a window that raises an alarm.
  bool Offer(std::span<const double> coordinates);
  const DriftReport& report() const { return report_; }
  /// The windows before, with another model: the counts go on.
  void Continue(const DriftReport& report) { report_ = report; }

  void Write(classify::ByteWriter& out) const;
  absl::Status Read(classify::ByteReader& in);
  /// The first part of what Write wrote, which does not depend on the model.
  static DriftReport ReadReport(classify::ByteReader& in);

 private:
  std::size_t window_ = 0;
  double scale_ = 0;  // m r / (m + r)
  double alarm_value_ = 0;
  std::vector<double> mean_;  // of the reference rows
  std::vector<double> sum_;   // of the rows in the window so far
  std::uint64_t rows_ = 0;    // in the window so far
  DriftReport report_;
};

struct StreamOptions {
  Budget budget = {};
  double novelty_weight = 1;
  DriftOptions drift = {};
};

struct Decision {
  double score = 0;
  double threshold = 0;
  bool take = false;
  double leverage = 0;
  double uncertainty = 0;
  double novelty = 0;
  bool drift_alarm = false;  ///< this row completed a window that raised an alarm
};

class StreamSelector {
 public:
  /// InvalidArgument if an option is out of its range.
  static absl::StatusOr<StreamSelector> Make(std::shared_ptr<const StreamModel> model, const StreamOptions& options);

  /// The next row, model().dims() numbers as the pool's are normalised. InvalidArgument, with nothing changed, if the
  /// score is not finite. `seconds` as in BudgetThreshold.
  absl::StatusOr<Decision> Offer(std::span<const double> row, double seconds);

  /// From now on rows are compared with this model, after a training with new labels: the budget and the counts go on,
  /// and the threshold is learned anew.
  absl::Status UseModel(std::shared_ptr<const StreamModel> model);

  const StreamModel& model() const { return *model_; }
  const BudgetThreshold& threshold() const { return threshold_; }
  const DriftReport& drift() const { return drift_.report(); }

  /// What Restore needs besides the model and the options.
  std::string State() const;
  /// Continues from the state of a selector with the same options. If it had another model, as after UseModel. Invalid
  /// states are an InvalidArgument and change nothing.
  absl::Status Restore(std::string_view state);

  // Continuing from an older state and the decisions after it, which take less room than a state each.

  /// A row that was decided after the state. `row` must be as it was if it was taken; otherwise it is not used.
  void Repeat(double score, double seconds, bool taken, std::span<const double> row);
  /// The part of the state that does not follow from what Repeat is told.
  std::string DriftState() const;
  /// `same_model`: it is of a selector with this model. InvalidArgument if it is damaged.
  absl::Status RestoreDrift(std::string_view state, bool same_model);

 private:
  StreamSelector(std::shared_ptr<const StreamModel> model, const StreamOptions& options, DriftTest drift);
  /// M for the labeled rows of the model.
  absl::Status StartLeverage();
  double LeverageOf(std::span<const double> coordinates);
  void Take(std::span<const double> coordinates, double leverage);
  void ScaleLeverage();

  std::shared_ptr<const StreamModel> model_;
  StreamOptions options_;
  BudgetThreshold threshold_;
  DriftTest drift_;
  Matrix<double> inverse_;       // M
  std::vector<double> product_;  // M z of the last row
  double mean_leverage_ = 1;     // of the reference rows
  RowView view_;
};

}  // namespace fulcrum::stream
