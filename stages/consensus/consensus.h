// What the answers of several annotators say about the true classes of items, and how good each annotator is: the model
// of Dawid and Skene (1979).
//
// Item i has the class t_i with probability priors[t_i]. Annotator a answers v with probability confusion[a][t_i][v],
// independently of the other annotators. EM alternates between the posterior of every item,
//
//   P(t_i = c | votes)  ~  priors[c] * product over the votes (a, v) of i of confusion[a][c][v],
//
// and the parameters given the posteriors. Every row confusion[a][c] has a Dirichlet prior whose mean is a one-coin
// model of annotator a (right with probability A_a, otherwise any other class), and A_a itself is drawn to the accuracy
// of all annotators: with few votes an annotator is like the others, with more votes like itself, and only with many
// votes per class has it a row per class of its own. An item with a single vote says nothing about the annotator, and
// does not enter the parameters; otherwise a crowd without contradictions would be taken for a perfect one. Items with
// a known class (gold) have that class with certainty. A classifier can be one more voice, discounted: its probability
// enters with an exponent below 1.
//
// An iteration takes O(votes * classes). The result does not depend on the number of threads or the order of the
// votes beyond rounding; for the same order it is identical. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::consensus {

/// An answer of an annotator about an item.
struct Vote {
  std::uint32_t item = 0;
  std::uint32_t annotator = 0;
  ClassIndex value = 0;

  bool operator==(const Vote&) const = default;
};

/// How much is believed before the first vote.
struct ConsensusPrior {
  double accuracy = 0.75;      ///< of the annotators as a whole
  double crowd_votes = 10;     ///< that this accuracy weighs
  double annotator_votes = 8;  ///< that the accuracy of all annotators weighs for each of them
  double row_votes = 30;       ///< that an annotator's accuracy weighs in each row of its confusion matrix
  double class_items = 10;     ///< per class, added to the items of each class in the class priors
};

/// The parameters: class priors, and a confusion matrix per annotator. A plain value.
struct AnnotatorModel {
  std::size_t classes = 0;
  std::vector<double> priors = {};
  double crowd_accuracy = 0;           ///< of all annotators together
  std::vector<double> accuracy = {};   ///< per annotator, averaged over its votes
  std::vector<double> confusion = {};  ///< annotator x true class x answer

  std::size_t annotators() const { return accuracy.size(); }
  /// The probability of an answer given the true class. An annotator that the model does not know is like the others.
  double Likelihood(std::size_t annotator, std::size_t truth, std::size_t answer) const {
    if (annotator < annotators()) return confusion[(annotator * classes + truth) * classes + answer];
    return truth == answer ? crowd_accuracy : (1 - crowd_accuracy) / static_cast<double>(classes - 1);
  }
  bool operator==(const AnnotatorModel&) const = default;
};

/// The model before the first vote.
AnnotatorModel PriorModel(std::size_t classes, const ConsensusPrior& prior = {});

struct ConsensusProblem {
  std::size_t items = 0;
  std::size_t annotators = 0;
  std::size_t classes = 0;  ///< 2 or more
  std::span<const Vote> votes = {};
  /// By item: its class if it is known, otherwise kUnlabeled. Empty: none is known.
  std::span<const ClassIndex> known = {};
  /// By item and class: what a classifier says. Empty: nothing. Annotators are then also judged by what it says.
  ConstMatrixView classifier = {};
  double classifier_weight = 0.5;  ///< exponent of the classifier's probabilities, in [0, 1]
  ConsensusPrior prior = {};
};

struct ConsensusLimits {
  std::size_t iterations = 200;
  double tolerance = 2e-5;  ///< EM ends when an iteration changes the parameters by no more than this
};

struct Consensus {
  AnnotatorModel model = {};
  Matrix<double> posterior = {};  ///< item x class; the class priors for items without a vote
  std::size_t iterations = 0;
  bool converged = false;
};

/// EM from `start`, which may know fewer annotators; without it from the shares of the votes on each item. The problem
/// must be consistent: indices below their counts, at least two classes.
Consensus EstimateConsensus(const ConsensusProblem& problem, const AnnotatorModel* start = nullptr,
                            const ConsensusLimits& limits = {});

/// One vote on an item, as the posterior of a single item takes it.
struct ItemVote {
  std::size_t annotator = 0;  ///< an index that the model does not have is an unknown annotator
  std::size_t value = 0;
};

/// What a classifier says about an item, and how much that counts.
struct ClassifierVoice {
  std::span<const double> probabilities = {};  ///< by class; empty: nothing
  double weight = 0.5;                         ///< exponent of the probabilities, in [0, 1]
};

/// The posterior of one item under a model.
std::vector<double> ItemPosterior(const AnnotatorModel& model, std::span<const ItemVote> votes,
                                  const ClassifierVoice& voice = {});

/// The expected reduction of the entropy of what is believed of an item, in nats, by an answer of an annotator; by one
/// of an annotator that the model does not know: of somebody of the usual accuracy.
double ExpectedInformation(const AnnotatorModel& model, std::size_t annotator, std::span<const double> belief);

// How good each annotator is, with how much is known about it.
//
// The accuracy of an annotator is estimated from what is known of each item without its own vote, so that none
// confirms itself. How much a vote says depends on that: a vote on a gold item, or on an item that others agree on,
// counts fully; a vote on an item that only this annotator answered does not count. The interval is Wilson's with that
// effective number of votes. Pure functions, thread-safe.

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
