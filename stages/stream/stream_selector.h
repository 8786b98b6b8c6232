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
// reference rows. A row whose score reaches the threshold is taken (budget_threshold.h), and every row enters the drift
// test (drift_test.h). A row costs O(landmarks (features + rank)), a taken one O(rank^2) more.
//
// Deterministic: the decisions are a function of the model, the options and the rows so far. State() and Restore()
// continue with the same decisions in another process. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/stream/budget_threshold.h"
#include "stages/stream/drift_test.h"
#include "stages/stream/stream_model.h"

namespace fulcrum::stream {

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
