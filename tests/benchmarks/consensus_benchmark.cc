// Times the consensus of 1,000,000 votes, cold and after 1,000 new votes.
#include <vector>

#include "stages/consensus/consensus.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/unit/stages/consensus/crowd.h"

namespace fulcrum::benchmarks {
namespace {

void Measure(std::size_t annotators, std::size_t classes) {
  constexpr std::size_t kVotesPerItem = 4;
  constexpr std::size_t kItems = 250'000;
  std::vector<double> accuracies;
  for (std::size_t a = 0; a < annotators; ++a) {
    accuracies.push_back(0.55 + 0.4 * static_cast<double>(a) / static_cast<double>(annotators));
  }
  testing::Crowd crowd = testing::MakeCrowd(accuracies, kItems, kVotesPerItem, classes, 1);
  const std::vector<consensus::Vote> all = crowd.votes;
  crowd.votes.resize(all.size() - 1000);
  consensus::Consensus before, cold, warm;
  before = consensus::EstimateConsensus(crowd.Problem(annotators));
  crowd.votes = all;
  const double cold_seconds =
      FastestSeconds(3, [&] { cold = consensus::EstimateConsensus(crowd.Problem(annotators)); });
  const double warm_seconds =
      FastestSeconds(3, [&] { warm = consensus::EstimateConsensus(crowd.Problem(annotators), &before.model); });
  std::printf("\n%zu votes of %zu annotators, %zu classes: %zu iterations cold, %zu warm; %.4f of the items right\n",
              all.size(), annotators, classes, cold.iterations, warm.iterations, testing::ShareRight(crowd, warm));
  PrintAtMost("EM over 1,000,000 votes, cold", cold_seconds, 2, "s");
  PrintAtMost("EM after 1,000 new votes", warm_seconds, 0.2, "s");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  fulcrum::benchmarks::Measure(20, 2);
  fulcrum::benchmarks::Measure(200, 5);
  fulcrum::benchmarks::Measure(2000, 10);
}
