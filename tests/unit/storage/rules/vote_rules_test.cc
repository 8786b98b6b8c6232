#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {
namespace {

std::vector<Vote> Votes(const std::string& values) {
  std::vector<Vote> votes;
  for (const char value : values) {
    votes.push_back({.annotator = absl::StrCat("a", votes.size()), .value = std::string(1, value)});
  }
  return votes;
}

std::string Judge(const std::string& values, std::int64_t overlap, std::int64_t margin, std::int64_t most) {
  CampaignSettings settings;
  settings.overlap = overlap;
  settings.margin = margin;
  settings.most_votes = most;
  const VoteVerdict verdict = JudgeVotes(Votes(values), settings);
  if (verdict.outcome == VoteOutcome::kDecided) return verdict.value;
  if (verdict.outcome == VoteOutcome::kDisputed) return "disputed";
  return absl::StrCat("+", verdict.votes_wanted);
}

TEST(VoteRulesTest, FewerThanTheOverlapWantTheRest) {
  EXPECT_EQ(Judge("", 3, 1, 5), "+3");
  EXPECT_EQ(Judge("xx", 3, 1, 5), "+1");
}

TEST(VoteRulesTest, TheFirstDecidesByTheMargin) {
  EXPECT_EQ(Judge("x", 1, 1, 3), "x");
  EXPECT_EQ(Judge("xyx", 3, 1, 5), "x");
  EXPECT_EQ(Judge("yxy", 3, 1, 5), "y");
  EXPECT_EQ(Judge("xyx", 3, 2, 5), "+1");
  EXPECT_EQ(Judge("xyxx", 3, 2, 5), "x");
}

TEST(VoteRulesTest, ATieWantsOneMoreUntilThereAreEnough) {
  EXPECT_EQ(Judge("xy", 2, 1, 4), "+1");
  EXPECT_EQ(Judge("xyz", 2, 1, 4), "+1");
  EXPECT_EQ(Judge("xyzw", 2, 1, 4), "disputed");
  EXPECT_EQ(Judge("xyxy", 2, 1, 4), "disputed");
}

TEST(VoteRulesTest, MoreVotesThanWantedCountToo) {
  EXPECT_EQ(Judge("xyy", 1, 1, 1), "y");
  EXPECT_EQ(Judge("xxyy", 1, 1, 1), "disputed");
}

TEST(VoteRulesTest, WithdrawnVotesDoNotCount) {
  std::vector<Vote> votes = Votes("xy");
  votes[1].withdrawn = true;
  const VoteVerdict verdict = JudgeVotes(votes, {.overlap = 1});
  EXPECT_EQ(verdict.outcome, VoteOutcome::kDecided);
  EXPECT_EQ(verdict.value, "x");
}

}  // namespace
}  // namespace fulcrum::storage
