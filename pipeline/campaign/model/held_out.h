// What classifiers that did not see a label say about its example: for likely label errors, and as a voice beside the
// votes of annotators.
//
// The classifier of a round is trained again on parts of the labels, with the settings that it has. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
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
