// The Gaussian process behind hybrid, straight from its formulas: one dense inverse, no updates.
#pragma once

#include "stages/core/matrix.h"
#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {

class GaussianProcessReference {
 public:
  GaussianProcessReference(const SmallPool& pool, const Candidates& candidates, RowList labeled, double noise);

  /// k(x,z) - k_l(x)' (K_ll + noise I)^-1 k_l(z)
  double Covariance(RowIndex x, RowIndex z) const;
  /// Of one class against the others, both sides weighed alike; only rows with a label in `candidates` count.
  double Mean(const Candidates& candidates, std::size_t class_index, RowIndex row) const;
  /// erfc of half the distance of the two largest means, in standard deviations.
  double Doubt(const Candidates& candidates, RowIndex row) const;

 private:
  Matrix<double> kernel_;
  RowList labeled_;
  Matrix<double> inverse_;
  double noise_;
};

}  // namespace fulcrum::select
