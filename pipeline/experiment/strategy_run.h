// One strategy on one run: query, label, train, test, repeat. METHOD section 3.
//
// The rounds are those that campaigns and `fulcrum select` run (pipeline/round/round.h), with answers from the known
// labels. Thread-safe on shared RunData.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/run_data.h"
#include "pipeline/experiment/simulated_crowd.h"
#include "pipeline/round/round.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::pipeline {

/// `data` is tunable if spec.tune is set; unless it is, features are normalised by `normalize`. The curve of points
/// 0..rounds, fewer if the pool runs out. The caller sets the names and the number of the run.
/// With annotators the answers are the labels that their votes give, and spec.batch is the number of votes per round.
/// With costs the budget of each round, and what earlier rounds left, buys labels; spec.batch at most.
absl::StatusOr<Curve> RunStrategy(const RoundSpec& spec, std::size_t rounds, const RunData& data,
                                  std::span<const SimulatedAnnotator> annotators = {}, const VotingRule& voting = {},
                                  const SimulatedCosts& costs = {}, const std::string& normalize = "zscore,unit");

/// The same with the queries of a stream that may take `share` of its rows. The curve ends when
/// the stream does. InvalidArgument unless spec.tune is set.
absl::StatusOr<Curve> RunStream(const RoundSpec& spec, std::size_t rounds, const RunData& data, double share);

/// One point: a classifier trained on all labels of the training half.
absl::StatusOr<Curve> RunFullData(const RoundSpec& spec, const RunData& data,
                                  const std::string& normalize = "zscore,unit");

// Quality of predictions. Pure functions, thread-safe.

/// The share of correct predictions; 0 if there are none.
double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth);

/// 2 TP / (2 TP + FP + FN) of the class `positive`; 0 if it is neither present nor predicted.
double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive);

/// The mean of F1Score over the classes of `truth`.
double MacroF1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth);

/// Expected calibration error with ten bins of equal width: the mean difference between the probability of the
/// predicted class (rows x classes) and how often that class is right.
double CalibrationError(ConstMatrixView probabilities, std::span<const ClassIndex> predicted,
                        std::span<const ClassIndex> truth);

}  // namespace fulcrum::pipeline
