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

}  // namespace fulcrum::consensus
