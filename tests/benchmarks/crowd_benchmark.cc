// What votes of simulated annotators are worth: accuracy of the labels that 300 votes give, by rule, and which
// annotators are paused. 50 runs each, on random rows.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "pipeline/experiment/experiment_spec.h"
#include "stages/core/random.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRuns = 50, kVotesPerRound = 30;

struct CrowdResult {
  double labels = 0;    ///< mean
  double accuracy = 0;  ///< mean
  double worst = 1;
  std::size_t spammers = 0;
  std::size_t others = 0;
};

CrowdResult Run(const std::vector<pipeline::SimulatedAnnotator>& annotators, const pipeline::VotingRule& rule,
                std::size_t classes, std::size_t rounds, std::uint64_t first_seed) {
  CrowdResult result;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    Random random(first_seed + seed);
    std::vector<ClassIndex> truth(rounds * kVotesPerRound), labels(truth.size(), kUnlabeled);
    for (ClassIndex& value : truth) value = static_cast<ClassIndex>(random.Below(classes));
    std::vector<double> weights(truth.size(), 1.0);
    pipeline::SimulatedCrowd crowd(annotators, rule, classes, truth, seed);
    for (std::size_t round = 0; round < rounds; ++round) {
      RowList rows(kVotesPerRound);
      std::iota(rows.begin(), rows.end(), static_cast<RowIndex>(round * kVotesPerRound));
      crowd.Ask(rows, kVotesPerRound, labels, weights);
    }
    const double accuracy = crowd.LabelAccuracy(labels).value_or(0);
    result.labels += static_cast<double>(crowd.decided()) / kRuns;
    result.accuracy += accuracy / kRuns;
    result.worst = std::min(result.worst, accuracy);
    result.spammers += crowd.paused_spammers();
    result.others += crowd.paused_others();
  }
  return result;
}

void CompareRules(std::size_t classes) {
  std::vector<pipeline::SimulatedAnnotator> annotators;
  for (const double accuracy : {0.55, 0.65, 0.75, 0.85, 0.95}) annotators.push_back({.accuracy = {accuracy}});
  std::printf("\nfive annotators of accuracy 0.55 to 0.95, %zu classes, 300 votes\n", classes);
  struct NamedRule {
    const char* name;
    pipeline::VotingRule rule;
  };
  const NamedRule rules[] = {{"majority of 1", {.overlap = 1}},
                             {"majority of 3", {.overlap = 3}},
                             {"majority of 5", {.overlap = 5}},
                             {"consensus of 3", {.dawid_skene = true, .overlap = 3}},
                             {"consensus, overlap auto", {.dawid_skene = true, .overlap = 0}}};
  double majority = 0, adaptive = 0;
  for (const NamedRule& named : rules) {
    const CrowdResult result = Run(annotators, named.rule, classes, 10, 100);
    std::printf("  %-26s %5.1f labels, %.4f right, worst run %.4f\n", named.name, result.labels, result.accuracy,
                result.worst);
    if (named.rule.overlap == 3 && !named.rule.dawid_skene) majority = result.accuracy;
    if (named.rule.overlap == 0) adaptive = result.accuracy;
  }
  PrintAtLeast("points above the majority of 3", 100 * (adaptive - majority), 3, "points");
}

void FindSpammers() {
  std::vector<pipeline::SimulatedAnnotator> annotators;
  for (const double accuracy : {0.75, 0.8, 0.85, 0.9, 0.95}) annotators.push_back({.accuracy = {accuracy}});
  annotators.push_back({.spammer = true});
  annotators.push_back({.spammer = true});
  std::printf("\nfive annotators of accuracy 0.75 to 0.95 and two who answer at random, pause_below 0.65\n");
  for (const std::size_t classes : {std::size_t{2}, std::size_t{4}}) {
    const CrowdResult result =
        Run(annotators, {.dawid_skene = true, .overlap = 0, .pause_below = 0.65}, classes, 40, 0);
    std::printf("  %zu classes, 1,200 votes: %zu of %zu spammers paused\n", classes, result.spammers, 2 * kRuns);
    PrintAtMost("others paused", static_cast<double>(result.others), 0);
  }
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  for (const std::size_t classes : {std::size_t{2}, std::size_t{3}, std::size_t{10}}) {
    fulcrum::benchmarks::CompareRules(classes);
  }
  fulcrum::benchmarks::FindSpammers();
}
