// How much of the pool's doubt the answer to one more question would settle.
//   reduction(x) = sum_r doubt(r) cov(x, r)^2 / (var(x) + noise)
//   doubt(r)     = P(the wrong sign) = erfc(margin(r) / sqrt(2 (var(r) + noise)))
// cov and var are the posterior's, margin is half the distance between its two largest class means, and r runs over a
// sample of the candidates. cov(x, r)^2 / (var(x) + noise) is what an answer for x takes off the variance of r, so with
// doubt 1 everywhere this is the criterion of transductive experimental design: representative examples first. Doubts
// fall where the classes are settled, and the questions move to where they meet.
//
// Keeps a reference to the posterior. Not thread-safe for Follow; Scores uses the threads of the caller's arena and
// gives the same values on any number of them.
#pragma once

#include <cstddef>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/select/posterior.h"

namespace fulcrum::select {

class DoubtReduction {
 public:
  /// Candidates and references are positions among the candidates of `posterior`, which was asked for updates and for
  /// one mean a class.
  DoubtReduction(const Posterior& posterior, std::vector<std::size_t> candidates, std::vector<std::size_t> references);

  /// reduction(x), in the order of the candidates.
  std::vector<double> Scores() const;

  /// Takes in what the last posterior.Label changed.
  void Follow();

 private:
  const Posterior& posterior_;
  std::vector<std::size_t> candidates_;
  std::vector<std::size_t> references_;
  Matrix<double> covariances_;  // candidates x references
};

/// Half the distance between the two largest means of a candidate; with two classes the size of either.
double MarginOf(const Posterior& posterior, std::size_t candidate);

}  // namespace fulcrum::select
