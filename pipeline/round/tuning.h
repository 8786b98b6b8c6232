// Chooses how features are normalised, the classifier, its kernel and its penalty from the labels so far.
//
// Candidates are a few normalisations, of which one depends on the labels (ingest::RelevanceOf), each with a linear
// kernel and rbf kernels whose widths are multiples of the pool's median distance, and three penalties. The classifier
// is logistic regression, or the SVM if there are so many labels that its sparse models matter. Cross-validation on the
// labels decides (stages/classify/classifier.h); with too few labels for that, the setting that was best on average
// over many data sets is used (docs/accuracy.md). The result is a function of the source, the labels and the seed. Pure
// functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/round.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::pipeline {

/// One setting of the classifier, and how well it did on held-out labels.
struct ClassifierChoice {
  std::string normalize = "zscore";  ///< as ingest::ParseNormalization reads it
  std::string classifier = "svm";    ///< a name of the registry (stages/classify/classifier.h)
  kernel::KernelFunction kernel = {};
  double c = 1;
  std::vector<double> class_weights = {};  ///< factors of c by class; empty: all are 1, as are those beyond its end
  double log_loss = 0;                     ///< shrunk (classify::ShrinkToParts); 0 if it was not measured
  double accuracy = 0;
};

struct TunedSettings {
  ClassifierChoice chosen = {};
  kernel::KernelFunction leverage_kernel = {};  ///< on the same features, with the pool's median distance
  std::size_t labels = 0;                       ///< that it was chosen with; 0: too few to compare settings
  std::size_t classes = 0;                      ///< that had labels
  std::vector<ClassifierChoice> runners_up = {};
  std::string reason = {};
};

/// `labels` by row of the source, kUnlabeled if there is none. `weights` by row: how much each label counts; empty: all
/// weigh 1. Without `weigh_classes` no weights of classes are chosen, because they are given.
absl::StatusOr<TunedSettings> Tune(const FeatureSource& source, std::span<const ClassIndex> labels, std::uint64_t seed,
                                   std::span<const double> weights = {}, bool weigh_classes = true);

/// Whether settings that were chosen with fewer labels, or with other classes, should be chosen again.
bool ShouldTuneAgain(const TunedSettings& settings, std::span<const ClassIndex> labels);

/// Makes these the settings of a classifier, except for weights of classes that are given.
void UseChoice(const ClassifierChoice& choice, std::size_t class_count, classify::SvmParameters& parameters);

/// "bins weighed by relevance" instead of digits that say nothing to a reader; others as they are.
std::string DescribeNormalization(const std::string& normalize);

/// "zscore, logistic, rbf(sigma=4.2), C 30", for reports.
std::string DescribeChoice(const ClassifierChoice& choice);

// Rounds whose classifier tunes itself: decides when settings are chosen again, and runs each round with the current
// ones.
//
// Settings are chosen in the first round and again when the labels have grown by a factor (ShouldTuneAgain), so most
// rounds are as cheap as without tuning. If the choice is the same as before, the round starts warm. Given the settings
// of the round before (Recall), a runner in another process continues with the same rounds. Not thread-safe.

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
