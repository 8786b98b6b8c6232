// Which strategy makes the batch of a round, and what is checked before one: the same for a round in one process
// (round.h) and for one over several (pipeline/cluster).
//
// Strategies that look at a classifier need labels of two classes. Before that, others look for the classes. Pure
// functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "stages/core/rows.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

/// By class index, how many rows have its label. Rows without a label do not count.
std::vector<std::size_t> CountLabels(std::span<const ClassIndex> labels, std::size_t classes);

struct RoundStrategy {
  std::string name;  ///< of the registry
  /// Half of the batch is picked at random: so many labels are of one class that the others may not have been found.
  bool half_by_chance = false;
};

/// The strategy of the spec, or one that looks for the classes. `labels_of_class` are those of the whole pool;
/// `has_predictions`: of a model of the user's own.
absl::StatusOr<RoundStrategy> ChooseStrategy(const RoundSpec& spec, std::span<const std::size_t> labels_of_class,
                                             bool has_predictions);

/// How many rows of a batch of which half is picked by chance are the strategy's. Batches of one alternate.
std::size_t PicksOfStrategy(std::size_t batch, std::size_t queries_so_far);

/// InvalidArgument if the strategy needs the confidence of a classifier, which given classes do not have.
absl::Status CheckGivenClasses(const std::string& strategy, const select::Requirements& needs);

/// The classifier has a machine per pair of classes: each of `rows` has a value for every pair at a time, every labeled
/// row a weight. With thousands of classes that is more than any machine has. ResourceExhausted if it is more than
/// `memory_bytes` (0: what the machine has).
absl::Status CheckClassPairs(std::span<const std::size_t> labels_of_class, std::size_t rows, std::size_t memory_bytes);

}  // namespace fulcrum::pipeline
