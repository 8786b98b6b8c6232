// Platt scaling: a sigmoid that turns decision values into probabilities.
//
// The fit is the Newton method with backtracking of Lin, Lin and Weng (2007), on held-out decision values of five
// folds, as in LIBSVM. Determined by the seed. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/matrix.h"

namespace fulcrum::classify {

/// Returns the sigmoid that best fits the decision values of examples with labels y (+1 or -1). An example of weight w
/// counts like w examples; without weights all count once.
PlattParameters FitSigmoid(std::span<const double> decisions, std::span<const double> y,
                           std::span<const double> weights = {});

/// Returns the probability of the positive class, without overflow.
double PlattProbability(const PlattParameters& platt, double decision);

/// Returns the decision value of every example from a solver that did not see its fold. `order` lists the examples
/// independently of the layout of the problem; the folds are a shuffle of it. A training part with only one class
/// returns +1 or -1 for that class, and an empty one 0 (LIBSVM's rule). `start` has the multipliers and products of the
/// solution of the whole problem; it only saves time.
std::vector<double> CrossValidatedDecisions(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start,
                                            std::span<const std::uint32_t> order, std::uint64_t seed,
                                            std::uint64_t stream);

// Class probabilities from pairwise probabilities: the second method of Wu, Lin and Weng (2004).

/// `pairwise`(i, j) = P(i | i or j), in (0, 1), with pairwise(j, i) = 1 - pairwise(i, j); the diagonal is not read.
/// Returns the p >= 0 with sum 1 that minimises sum over i != j of (pairwise(j, i) p_i - pairwise(i, j) p_j)^2. With
/// two classes this is the pairwise probability itself. Thread-safe.
std::vector<double> CoupleProbabilities(ConstMatrixView pairwise);

}  // namespace fulcrum::classify
