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
// does not enter the parameters; otherwise a crowd that nobody contradicts would be taken for a perfect one. Items with
// a known class (gold) have that class with certainty. A classifier can be one more voice, discounted: its probability
// enters with an exponent below 1.
//
// An iteration takes O(votes * classes). The result does not depend on the number of threads or the order of the
// votes beyond rounding; for the same order it is identical. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// By item and class: what a classifier says. Empty: nothing.
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

/// The posterior of one item under a model.
std::vector<double> ItemPosterior(const AnnotatorModel& model, std::span<const ItemVote> votes);

}  // namespace fulcrum::consensus
