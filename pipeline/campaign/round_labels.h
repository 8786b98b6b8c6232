// What a round reads from the log: labels with their weights, and which rows must not be selected; and what classifiers
// that did not see a label say about its example: for likely label errors, and as a voice besides the votes of
// annotators.
//
// A function of the log up to a sequence, like all that follows from it. For the second the classifier of a round is
// trained again on parts of the labels, with the settings that it has. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "storage/state/campaign_state.h"
#include "storage/state/crowd.h"

namespace fulcrum::pipeline {

/// Labeled examples; the lists have the same order.
struct LabeledRows {
  RowList rows = {};
  std::vector<std::size_t> classes = {};
  std::vector<double> weights = {};  ///< the probability that a label is right

  /// Without all but the last ones.
  void KeepLast(std::size_t most);
};

struct RoundLabels {
  std::vector<ClassIndex> of_rows = {};
  std::vector<double> weights = {};  ///< by row; empty: all weigh 1
  RowList barred = {};               ///< disputed, set aside, or about to be asked about again
  std::int64_t count = 0;
  std::size_t classes = 0;    ///< with at least one label
  LabeledRows weighted = {};  ///< the same in the order in which they were decided; only if they weigh differently
  RowList voted = {};         ///< rows with votes that do not decide them; the next batch begins with them
  std::size_t carried = 0;    ///< places of the next batch that such items take
  double carried_cost = 0;    ///< of the votes that these may need
};

/// The row of a label and its class. DataLoss if there is none.
absl::StatusOr<std::pair<RowIndex, ClassIndex>> Locate(const CampaignPlan& plan, const CampaignPool& pool,
                                                       const storage::DecidedLabel& label);

/// The labels of rows of `pool`. Labels of other rows are left out if `whole`, which has grown since, has these rows,
/// or if a stream brought them and they are in no file yet; otherwise they are a DataLoss.
absl::StatusOr<RoundLabels> ReadRoundLabels(const storage::CampaignState& state, const CampaignPlan& plan,
                                            const CampaignPool& pool, const CampaignPool& whole);

/// The probabilities of the classes, labels x classes, by cross-validation. `tuning` is what a tuned classifier has
/// chosen for itself, null for other classifiers. At least two classes must have labels.
absl::StatusOr<Matrix<double>> PredictHeldOut(const CampaignPlan& plan, const CampaignPool& pool,
                                              const TunedSettings* tuning, const LabeledRows& labeled);

/// What the classifier of a round says about labeled examples, of which it takes the last ones, and about others, given
/// its decision values for these.
struct HeardRows {
  const LabeledRows& labeled;
  std::span<const RowIndex> others = {};
  ConstMatrixView decisions = {};  ///< others x pairs of classes
};
absl::StatusOr<storage::Voices> HearClassifier(const CampaignPlan& plan, const CampaignPool& pool,
                                               const classify::SvmModel& model, const TunedSettings* tuning,
                                               const HeardRows& heard);

}  // namespace fulcrum::pipeline
