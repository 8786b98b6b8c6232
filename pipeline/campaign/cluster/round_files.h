// The files by which a daemon and the job of a round (`fulcrum round`) work together, in a folder of the campaign.
//
//   plan       the round: labels, settings and where the pool is; the job ends itself when it is gone
//   progress   what the job is doing
//   output     what the job prints, if its launcher puts it there (a scheduler does not print it itself)
//   outcome    the batch, the model and the scores, or an error; appears when it is complete
//
// Functions and plain values; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/cluster/round_job.pb.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"

namespace fulcrum::pipeline {

class RoundFiles {
 public:
  /// In this folder.
  explicit RoundFiles(std::string folder) : folder_(std::move(folder)) {}
  /// Next to this plan.
  static RoundFiles NextTo(const std::string& plan);

  std::string plan() const { return folder_ + "/plan"; }

  absl::Status WritePlan(const job::RoundPlan& plan) const;
  /// NotFound or DataLoss if there is none that can be read.
  absl::StatusOr<job::RoundPlan> ReadPlan() const;

  struct Progress {
    std::string stage = {};
    std::size_t done = 0;
    std::size_t total = 0;
    friend bool operator==(const Progress&, const Progress&) = default;
  };
  /// Best effort: a round does not fail because nobody can see how far it is.
  void WriteProgress(const Progress& progress) const;
  std::optional<Progress> ReadProgress() const;

  /// The end of what the job printed there; empty if it did not.
  std::string ReadOutput() const;

  /// What the round of this plan ended with.
  absl::Status WriteOutcome(const job::RoundPlan& plan, const absl::StatusOr<RoundResult>& result) const;
  /// The error or the result that the job wrote for this plan. Nothing if it wrote none, or none that is complete and
  /// fits the plan.
  std::optional<absl::StatusOr<RoundResult>> ReadOutcome(const job::RoundPlan& plan, std::size_t classes) const;

 private:
  std::string folder_;
};

}  // namespace fulcrum::pipeline
