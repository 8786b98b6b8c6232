// Simulated annotators for experiments: they make mistakes, skip, or answer at random.
//
// A round of an experiment spends a number of votes on the rows that the strategy selected, best first. Each row gets
// as many votes as the rule for labels wants; a row that is not decided when the votes are spent is continued in the
// next round. The rules are those of campaigns (storage/state/crowd.h): the majority of a fixed number of votes, or the
// consensus of Dawid and Skene with a fixed or an adaptive number. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stages/consensus/dawid_skene.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"

namespace fulcrum::pipeline {

struct SimulatedAnnotator {
  std::vector<double> accuracy = {0.8};  ///< by class; a single value is for all of them
  bool spammer = false;                  ///< answers at random, whatever the accuracy
  double skip = 0;                       ///< share of the rows that it skips

  double AccuracyOf(std::size_t class_index) const {
    return accuracy.size() == 1 ? accuracy[0] : accuracy[class_index];
  }
};

/// What labels cost: drawn per row, evenly on a logarithmic scale.
struct SimulatedCosts {
  double low = 1;
  double high = 1;
  double budget = 0;  ///< per round; 0: labels cost nothing
  bool weigh = true;  ///< the strategy knows them; otherwise its batch is bought in order while the budget lasts

  bool limits() const { return budget > 0; }
  /// By row.
  std::vector<double> Draw(std::size_t rows, std::uint64_t seed) const;
};

/// How votes become labels.
struct VotingRule {
  bool dawid_skene = false;
  std::size_t overlap = 1;  ///< 0: until the most probable class has the probability `confidence`; with Dawid-Skene
  std::size_t max_votes = 5;
  double confidence = 0.95;
  bool weights = true;     ///< labels are trained on with their probability as weight; with Dawid-Skene
  double pause_below = 0;  ///< annotators that are surely less accurate are not asked any more; with Dawid-Skene

  /// For the fingerprint of a run.
  std::string Describe() const;
};

class SimulatedCrowd {
 public:
  /// `truth` by row, which must outlive it. Everything follows from the seed.
  SimulatedCrowd(std::vector<SimulatedAnnotator> annotators, const VotingRule& rule, std::size_t class_count,
                 std::span<const ClassIndex> truth, std::uint64_t seed);

  /// Spends the votes on rows that are not decided yet, and then on these. Writes labels and weights of decided rows.
  void Ask(std::span<const RowIndex> rows, std::size_t votes, std::span<ClassIndex> labels, std::span<double> weights);

  std::size_t votes() const { return votes_.size(); }
  std::size_t decided() const { return decided_.size(); }
  /// Rows with votes that are not decided, ascending.
  RowList Undecided() const;
  /// Share of the decided rows whose label is right; nothing before the first.
  std::optional<double> LabelAccuracy(std::span<const ClassIndex> labels) const;
  std::size_t paused_spammers() const { return CountPaused(true); }
  std::size_t paused_others() const { return CountPaused(false); }

 private:
  /// A row that was asked about.
  struct Asked {
    RowIndex row = 0;
    std::vector<consensus::ItemVote> votes = {};
    std::vector<bool> unavailable = {};  ///< by annotator: has voted or skipped
  };
  enum class Next { kAsk, kDecided, kDropped };

  Next NextFor(const Asked& asked) const;
  /// Votes once more on the row; false if there is nobody to ask.
  bool Vote(Asked& asked, std::uint32_t item);
  ClassIndex AnswerOf(std::size_t annotator, ClassIndex truth);
  void Estimate();
  std::vector<double> PosteriorOf(const Asked& asked) const;
  std::size_t CountPaused(bool spammers) const;

  const std::vector<SimulatedAnnotator> annotators_;
  const VotingRule rule_;
  const std::size_t classes_;
  const std::span<const ClassIndex> truth_;
  Random random_;
  std::vector<Asked> asked_;            // in the order in which they were asked about first
  std::vector<std::uint32_t> pending_;  // places in asked_
  std::vector<std::uint32_t> decided_;
  std::vector<consensus::Vote> votes_;
  std::optional<consensus::AnnotatorModel> model_;
  std::size_t estimated_votes_ = 0;
  std::vector<bool> paused_;
};

}  // namespace fulcrum::pipeline
