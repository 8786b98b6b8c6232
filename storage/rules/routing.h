// Which of the open items suits an annotator: what it is likely to answer, and what its answer would tell.
//
// How likely an annotator answers an item follows from how often it skips tasks or lets their time run out, and how
// often that happened to the item, both smoothed: who does so no more than the others takes what comes, and reluctant
// annotators get first what nobody left unanswered.
// What an answer tells is the expected reduction of the doubt about the item's class under the annotator's confusion
// matrix, compared to an average annotator, so whoever can tell two classes apart gets the items that are in doubt
// between them. Run by the store like the lease rules.
#pragma once

#include <string>

#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

class Suitability {
 public:
  /// Keeps a reference to the state.
  Suitability(const CampaignState& state, const std::string& annotator);

  /// Whether items differ for this annotator at all. Not if it holds far more tasks than the others do: then it takes
  /// them in their order, so that the items that suit the others are left for them.
  bool matters() const { return matters_; }
  /// 1 for an item that nobody skipped, to an annotator like the others.
  double Of(const Item& item) const;

 private:
  double ChanceOfAnswer(const Item& item) const;
  double RelativeInformation(const Item& item) const;

  const CampaignState& state_;
  double odds_ = 1;        // that it answers, compared to the annotators together
  std::size_t place_ = 0;  // in the estimate; its size if it is not known there
  bool matters_ = false;
};

}  // namespace fulcrum::storage
