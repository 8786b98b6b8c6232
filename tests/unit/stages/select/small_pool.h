// A small pool with everything a strategy may ask for, built by hand: naive kernels, made-up scores.
#pragma once

#include <cstdint>
#include <vector>

#include "stages/core/random.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

struct SmallPoolSettings {
  std::size_t rows = 60;
  std::size_t dims = 4;
  std::size_t classes = 2;
  std::size_t labels_per_class = 2;
  std::uint64_t seed = 1;
  kernel::KernelFunction kernel = {};  ///< of both leverage and classifier
  bool shuffle_groups = false;         ///< list the rows of a group in a random order
};

/// Owns what the candidates point to. The first rows are the labeled ones, class after class.
class SmallPool {
 public:
  explicit SmallPool(const SmallPoolSettings& settings);
  /// The same rows in another order: row i of the new pool is row order[i] of the old one.
  SmallPool(const SmallPool& other, std::span<const RowIndex> order);

  /// Valid as long as the pool is.
  Candidates candidates(std::size_t batch) const;

  ConstMatrixView features() const { return features_.values(); }
  const Group& group(std::size_t index) const { return groups_[index]; }
  std::vector<ClassIndex>& labels() { return labels_; }

 private:
  /// Lists the rows of a group in a random order if there is a generator.
  void BuildGroups(Random* shuffle);

  kernel::DenseFeatures features_;
  kernel::KernelFunction kernel_;
  std::size_t class_count_;
  std::vector<ClassIndex> labels_;
  std::vector<ClassIndex> predicted_;
  std::vector<double> confidence_;
  std::vector<double> margin_;
  Matrix<double> probabilities_;
  std::vector<double> pool_leverage_;
  std::vector<double> group_leverage_of_row_;
  std::vector<RowList> group_rows_;
  std::vector<std::vector<double>> group_leverage_;
  std::vector<Matrix<double>> group_kernels_;
  std::vector<Group> groups_;
};

/// The rows of the picks, in order.
std::vector<RowIndex> RowsOf(const Selection& selection);

}  // namespace fulcrum::select
