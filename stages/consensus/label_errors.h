// Labels that are likely wrong, by confident learning (Northcutt, Jiang and Chuang, 2021).
//
// A class is confidently predicted for an example if its probability is at least the mean probability of that class
// among the examples that have it as their label. An example whose label is another class than the most probable of its
// confident classes is a likely error. The probabilities must be of a model that did not see the example. Pure
// functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::consensus {

struct LabelError {
  std::size_t example = 0;
  ClassIndex label = 0;      ///< that it has
  ClassIndex suggested = 0;  ///< that it may have instead
  double margin = 0;         ///< probability of the suggested class minus that of the label

  bool operator==(const LabelError&) const = default;
};

/// The largest margin first; ties in the order of the examples. Examples without a label are not looked at.
std::vector<LabelError> FindLabelErrors(std::span<const ClassIndex> labels, ConstMatrixView probabilities);

}  // namespace fulcrum::consensus
