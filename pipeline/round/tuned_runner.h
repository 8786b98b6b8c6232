// Rounds whose classifier tunes itself: decides when settings are chosen again, and runs each round with the current
// ones.
//
// Settings are chosen in the first round and again when the labels have grown by a factor (ShouldTuneAgain), so most
// rounds are as cheap as without tuning. If the choice is the same as before, the round starts warm. Given the settings
// of the round before (Recall), a runner in another process continues with the same rounds. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"

namespace fulcrum::pipeline {

class TunedRunner {
 public:
  /// Settings of the classifier in `spec` are replaced by those that are chosen, and so is the leverage kernel if it
  /// follows.
  explicit TunedRunner(RoundSpec spec) : spec_(std::move(spec)) {}

  /// Continues with the settings of the last round. Before the first round.
  void Recall(std::shared_ptr<const TunedSettings> settings) { settings_ = std::move(settings); }
  void RecallLandmarks(std::map<ClassIndex, RowList> landmarks) { recalled_landmarks_ = std::move(landmarks); }

  /// Like RoundRunner::Run. `source` is the same pool every time, possibly with more rows at its end. Choosing settings
  /// is the stage "tune".
  absl::StatusOr<RoundResult> Run(const FeatureSource& source, const RoundInput& input,
                                  const ProgressCallback& progress = {}, std::stop_token stop = {},
                                  const CommitCallback& commit = {});

  /// Of the last round.
  const PreparedFeatures& features() const { return features_; }
  const TunedSettings& settings() const { return *settings_; }
  ConstMatrixView decisions() const { return runner_->decisions(); }
  std::map<ClassIndex, RowList> Landmarks() const;

 private:
  /// OK if settings_ are right for these labels.
  absl::Status ChooseSettings(const FeatureSource& source, const RoundInput& input, const ProgressCallback& progress,
                              std::stop_token stop);
  /// Makes runner_ one for the settings and all rows of the source.
  absl::Status PrepareRunner(const FeatureSource& source, std::size_t class_count);

  RoundSpec spec_;
  std::shared_ptr<const TunedSettings> settings_;
  std::shared_ptr<const TunedSettings> prepared_for_;  // the settings behind features_ and runner_
  PreparedFeatures features_;
  std::unique_ptr<RoundRunner> runner_;
  std::map<ClassIndex, RowList> recalled_landmarks_;
};

}  // namespace fulcrum::pipeline
