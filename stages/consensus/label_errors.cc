#include "stages/consensus/label_errors.h"

#include <algorithm>

namespace fulcrum::consensus {

std::vector<LabelError> FindLabelErrors(std::span<const ClassIndex> labels, ConstMatrixView probabilities) {
  const std::size_t classes = probabilities.cols();
  std::vector<double> thresholds(classes, 0.0), members(classes, 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kUnlabeled) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    thresholds[label] += probabilities(i, label);
    members[label] += 1;
  }
  for (std::size_t c = 0; c < classes; ++c) thresholds[c] = members[c] > 0 ? thresholds[c] / members[c] : 2;
  std::vector<LabelError> errors;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kUnlabeled) continue;
    ClassIndex best = kUnlabeled;
    for (std::size_t c = 0; c < classes; ++c) {
      const double probability = probabilities(i, c);
      if (probability < thresholds[c]) continue;
      if (best == kUnlabeled || probability > probabilities(i, static_cast<std::size_t>(best))) {
        best = static_cast<ClassIndex>(c);
      }
    }
    if (best == kUnlabeled || best == labels[i]) continue;
    const double margin =
        probabilities(i, static_cast<std::size_t>(best)) - probabilities(i, static_cast<std::size_t>(labels[i]));
    errors.push_back({i, labels[i], best, margin});
  }
  std::stable_sort(errors.begin(), errors.end(),
                   [](const LabelError& a, const LabelError& b) { return a.margin > b.margin; });
  return errors;
}

}  // namespace fulcrum::consensus
