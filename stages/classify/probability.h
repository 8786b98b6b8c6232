// Platt scaling: a sigmoid that turns decision values into probabilities.
//
// The fit is the Newton method with backtracking of Lin, Lin and Weng (2007), on decision values of examples held
// out in five folds, as LIBSVM does it. Deterministic from the seed. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/classify/smo_solver.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"

namespace fulcrum::classify {

/// The sigmoid that fits the decision values of examples with labels y (+1 or -1) best.
PlattParameters FitSigmoid(std::span<const double> decisions, std::span<const double> y);

/// Probability of the positive class, without overflow.
double PlattProbability(const PlattParameters& platt, double decision);

/// Decision values of every example from a solver that did not see its fold. `order` lists the examples in an order
/// that does not depend on how the problem happens to be laid out; the folds are a shuffle of it. A training part that
/// lacks one class answers +1 or -1 for the class it has, and 0 where it is empty (LIBSVM's rule). `start` holds the
/// multipliers and products of the problem's own solution and only saves time.
std::vector<double> CrossValidatedDecisions(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start,
                                            std::span<const std::uint32_t> order, std::uint64_t seed,
                                            std::uint64_t stream);

// Class probabilities from those of the pairs: the second method of Wu, Lin and Weng (2004).

/// `pairwise`(i, j) = P(i | i or j), in (0, 1), with pairwise(j, i) = 1 - pairwise(i, j); the diagonal is not read.
/// Returns the p >= 0 with sum 1 that minimises sum over i != j of (pairwise(j, i) p_i - pairwise(i, j) p_j)^2. With
/// two classes that is the pair's own probability. Thread-safe.
std::vector<double> CoupleProbabilities(ConstMatrixView pairwise);

}  // namespace fulcrum::classify
