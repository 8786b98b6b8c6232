// How good each annotator is, with how much is known about it.
//
// The accuracy of an annotator is estimated from what is known of each item without its own vote, so that nobody
// confirms itself. How much a vote says depends on that: a vote on a gold item, or on an item that others agree on,
// counts fully; a vote on an item that only this annotator answered does not count. The interval is Wilson's with that
// effective number of votes. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "stages/consensus/dawid_skene.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::consensus {

struct Interval {
  double low = 0;
  double high = 1;
};

/// Wilson's interval of a share, at 95 percent with the default z; [0, 1] without observations.
Interval WilsonInterval(double right, double total, double z = 1.959964);

struct AnnotatorQuality {
  std::size_t votes = 0;
  double effective_votes = 0;  ///< that say something about the annotator
  double accuracy = 0;         ///< probability of a right answer
  Interval interval = {};      ///< of the accuracy, 95 percent
  std::size_t gold_votes = 0;
  std::size_t gold_right = 0;
  std::vector<double> confusion = {};  ///< true class x answer
  std::optional<double> recent = {};   ///< accuracy of the later half of the votes, if both halves have enough
  std::optional<double> drift = {};    ///< of it: later half minus earlier half
  std::optional<double> drift_z = {};  ///< the drift in standard errors; beyond 3 either way is hardly chance
};

/// Whether the accuracy is below a limit, in the sense of a rule that is applied again and again: campaigns look after
/// every estimate, some 50 times, so one look may err with a probability of 0.005 only (2.6 standard errors). The looks
/// share most of their votes, so they err together more often than by themselves.
bool IsSurelyBelow(const AnnotatorQuality& quality, double limit);
/// The interval that decides it.
Interval SureInterval(const AnnotatorQuality& quality);

/// By annotator. The votes of an annotator are in the order in which they were given.
std::vector<AnnotatorQuality> JudgeAnnotators(const ConsensusProblem& problem, const Consensus& consensus);

// How much annotators agree beyond chance: Cohen's kappa of two, Fleiss' kappa of many, Krippendorff's alpha with
// missing answers. All are 1 for full agreement and 0 for what chance gives.
//
// Classes are nominal. Pure functions, thread-safe.

/// Of two annotators, by the items that both answered, in the same order. Nothing if there is none, or if chance alone
/// gives full agreement.
std::optional<double> CohenKappa(std::span<const ClassIndex> first, std::span<const ClassIndex> second,
                                 std::size_t classes);

/// The mean of Cohen's kappa over all pairs of annotators that share at least `least_shared` items, weighted by the
/// number of shared items, and for each annotator the same mean over its own pairs.
struct PairwiseKappa {
  std::optional<double> overall = {};
  std::vector<std::optional<double>> of_annotator = {};
};
PairwiseKappa MeanCohenKappa(std::span<const Vote> votes, std::size_t annotators, std::size_t classes,
                             std::size_t least_shared = 5);

/// Of all items with at least two votes. Items may have different numbers of votes: the agreement of an item is the
/// share of its pairs of votes that agree. Equal to the usual definition if the numbers are equal.
std::optional<double> FleissKappa(std::span<const Vote> votes, std::size_t items, std::size_t classes);

/// 1 - observed / expected disagreement, nominal; items with one vote do not count.
std::optional<double> KrippendorffAlpha(std::span<const Vote> votes, std::size_t items, std::size_t classes);

// Labels that are likely wrong, by confident learning (Northcutt, Jiang and Chuang, 2021).
//
// A class is confidently predicted for an example if its probability is at least the mean probability of that class
// among the examples that have it as their label. An example whose label is another class than the most probable of its
// confident classes is a likely error. The probabilities must be of a model that did not see the example. Pure
// functions, thread-safe.

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
