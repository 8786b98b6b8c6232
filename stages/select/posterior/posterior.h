// The Gaussian process given the labeled examples: what QUIRE's closed form and hybrid's doubts are made of.
//   variance(x) = k(x,x) - k_l' (K_ll + noise I)^-1 k_l        mean(x) = k_l' (K_ll + noise I)^-1 y_l
// Costs O(n l) kernel values and O(n l^2) operations, in blocks of candidates under oneTBB; the result does not
// depend on the number of threads. Not thread-safe for writing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

struct PosteriorRequest {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction kernel;
  std::span<const RowIndex> labeled;
  std::span<const RowIndex> candidates;
  double noise = 1;              ///< lambda or mu; > 0
  ConstMatrixView targets = {};  ///< one row of y_l a mean wanted; may be empty
  std::size_t updates = 0;       ///< how often Label will be called; n (l + updates) numbers are kept if any
};

class Posterior {
 public:
  /// Fails where the kernel is not positive semi-definite. Keeps a pointer to the features, and the candidates' span.
  static absl::StatusOr<Posterior> Compute(const PosteriorRequest& request);

  /// The same labeled and targets, seen from other candidates: what was solved once serves all of them.
  Posterior Over(std::span<const RowIndex> candidates, std::size_t updates) const;

  /// By candidate, the noise not included.
  std::span<const double> variances() const { return variances_; }
  /// By candidate, one column a row of targets.
  ConstMatrixView means() const { return means_.view(); }

  /// Updates the variances by rank one as if this candidate were labeled. The means stay.
  void Label(std::size_t candidate);

  const PosteriorRequest& request() const { return request_; }
  /// out(i, j) = k(x,z) - k_l(x)' (K_ll + noise I)^-1 k_l(z) of candidates x = a[i] and z = b[j]. Only where updates
  /// were asked for. One thread; callers tile.
  void Covariances(std::span<const std::size_t> a, std::span<const std::size_t> b, MutableMatrixView out) const;
  /// What the last Label took from cov(x, z) is f(x) f(z), f this.
  double LastFactor(std::size_t candidate) const { return factors_(candidate, factor_count_ - 1); }

 private:
  /// Of the labeled alone.
  struct Given {
    RowList labeled;
    Matrix<double> lower;           // L L' = K_ll + noise I
    Matrix<double> solved_targets;  // L^-1 y_l, a row a target
  };

  Posterior(const PosteriorRequest& request, std::shared_ptr<const Given> given);
  /// Pool rows and factors of some candidates, close together in memory.
  struct FactorsOfSome {
    RowList rows;
    Matrix<double> factors;
  };
  FactorsOfSome Gather(std::span<const std::size_t> candidates) const;
  void ComputeBlock(std::size_t first, std::size_t count);

  PosteriorRequest request_;
  std::shared_ptr<const Given> given_;
  std::vector<double> variances_;
  Matrix<double> means_;
  Matrix<double> factors_;  // a row a candidate: L^-1 k_l, then an entry an update; empty without updates
  std::size_t factor_count_ = 0;
};

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
