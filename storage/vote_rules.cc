#include "storage/vote_rules.h"

#include <algorithm>
#include <map>

namespace fulcrum::storage {

VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings) {
  std::map<std::string, std::int64_t> count_of_value;
  std::int64_t total = 0;
  for (const Vote& vote : votes) {
    if (vote.withdrawn) continue;
    ++count_of_value[vote.value];
    ++total;
  }
  if (total < settings.overlap) return {.votes_wanted = settings.overlap - total};
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::string leader;
  for (const auto& [value, count] : count_of_value) {
    second = std::max(second, std::min(first, count));
    if (count <= first) continue;
    first = count;
    leader = value;
  }
  if (first - second >= settings.margin) return {.outcome = VoteOutcome::kDecided, .value = leader};
  if (total >= settings.most_votes) return {.outcome = VoteOutcome::kDisputed};
  return {.votes_wanted = 1};
}

}  // namespace fulcrum::storage
