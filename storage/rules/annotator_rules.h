// Rules about annotators: when they are estimated, and which of them get no tasks.
//
// Run by the store like the lease rules. Estimates are made from all votes in the log, the answers that are known (gold
// items, other imported labels, decisions of administrators) as anchors, starting from the estimate before. They are
// made when the votes have grown by a tenth, and before every round.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/consensus/consensus.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

/// The votes that count, as the consensus takes them.
struct GatheredVotes {
  std::vector<std::string> annotators = {};  ///< sorted
  std::vector<std::string> items = {};       ///< with votes, in the order of their first vote
  std::vector<ClassIndex> known = {};        ///< by item
  std::vector<consensus::Vote> votes = {};   ///< in the order in which they were given

  consensus::ConsensusProblem Problem(std::size_t classes) const {
    return {.items = items.size(), .annotators = annotators.size(), .classes = classes, .votes = votes, .known = known};
  }
};

/// Votes and known answers that are not one of the classes are left out.
GatheredVotes GatherVotes(const CampaignState& state, const std::vector<std::string>& classes);

/// The consensus of the votes, from the estimate in the log if there is one.
consensus::Consensus EstimateFrom(const GatheredVotes& gathered, std::size_t classes, const Crowd* before);

/// How much the label of an item weighs in training: with votes of different worth the probability that it is right,
/// otherwise 1.
double LabelWeight(const CampaignState& state, const std::string& item);

struct EstimateRequest {};
struct EstimateAnswer {
  bool estimated = false;                ///< otherwise nothing has changed since the last estimate
  std::vector<std::string> paused = {};  ///< annotators that the rule paused
};
/// Estimates the annotators again if labels came since, and pauses those that are surely below the set accuracy.
/// Nothing happens in a campaign that decides by majority and pauses no annotator.
absl::StatusOr<EstimateAnswer> EstimateAnnotators(Ledger& ledger, const EstimateRequest& request);

/// The same if the votes have grown enough since the last estimate.
absl::Status EstimateIfDue(Ledger& ledger);

struct AnnotatorRequest {
  std::string annotator = {};
  std::string by = {};  ///< who asks
  std::string reason = {};
  std::string request_id = {};  ///< takes effect once; empty: every request is a new one
};
/// The annotator gets no more tasks; answers to tasks that it has are taken. Returns the sequence, 0 if it is paused
/// already.
absl::StatusOr<std::int64_t> PauseAnnotator(Ledger& ledger, const AnnotatorRequest& request);
/// The rule does not pause the annotator again. NotFound if it is not paused.
absl::StatusOr<std::int64_t> ResumeAnnotator(Ledger& ledger, const AnnotatorRequest& request);

}  // namespace fulcrum::storage
