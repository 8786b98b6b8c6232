// From a campaign's specification to what the round, the store and the rules need, with every default filled in.
//
// A pure function and plain values; thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "stages/ingest/normalize.h"
#include "stages/stream/stream_selector.h"
#include "storage/campaign_folder.h"
#include "storage/state/campaign_settings.h"

namespace fulcrum::pipeline {

// When a campaign is over. Pure functions; thread-safe.

/// Zero: no such rule.
struct StoppingRules {
  std::int64_t labels = 0;
  double cost = 0;
  std::int64_t rounds = 0;
  double accuracy = 0;
  std::int64_t stable_rounds = 0;
  double stable_share = 0.001;
  std::int64_t plateau_rounds = 0;
  double plateau_improvement = 0.001;
};

/// How good a round's model is.
struct ModelScore {
  std::optional<double> accuracy = {};  ///< on the validation set
  double changed_share = 1;             ///< of the pool's predictions, against the round before
};

/// What is known after a model was trained.
struct CampaignProgress {
  std::int64_t labels = 0;                  ///< bought so far
  double cost = 0;                          ///< of those labels
  std::int64_t rounds = 0;                  ///< answered so far
  std::span<const ModelScore> models = {};  ///< of every round that had one, the last one included
};

/// Rounds in a row, up to the last, in which no more than this share of the predictions changed.
std::int64_t StableRounds(std::span<const ModelScore> models, double share);

/// Rounds in a row, up to the last, that were not better than the best before by more than `improvement`. Better is a
/// higher accuracy, or fewer changed predictions if nothing is measured.
std::int64_t PlateauRounds(std::span<const ModelScore> models, double improvement);

/// The rule that is met, in words; nothing if the campaign goes on.
std::optional<std::string> StoppingReason(const StoppingRules& rules, const CampaignProgress& progress);

}  // namespace fulcrum::pipeline

namespace fulcrum::v1 {
class CampaignSpec;
class StreamSpec;
}  // namespace fulcrum::v1

namespace google::protobuf {
class FieldMask;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

// Rows that arrive one at a time. Stateless.

struct StreamPlan {
  stream::StreamOptions options = {};
  double keep_share = 0;  ///< of the rows that are not taken: so many join the pool
};

/// With every default filled in. `problem` is called with the path and the description of all that is impossible.
StreamPlan PlanStream(const v1::StreamSpec& spec,
                      const std::function<void(const std::string& path, const std::string& what)>& problem);

/// A model trained warm and one trained from nothing, after a restart, must give millions of rows the same classes, or
/// the batches that follow are not the same. It costs some three times the steps of LIBSVM's 1e-3.
inline constexpr double kCampaignSvmTolerance = 1e-8;

/// A model of the user's own, in a process of its own.
struct ExternalModel {
  std::chrono::milliseconds timeout{30 * 60'000};  ///< that a round waits for predictions
  std::chrono::milliseconds lease_time{60'000};
  bool builtin_fallback = false;  ///< after that the built-in classifier is used; otherwise the campaign fails
};

/// Rounds are computed by jobs; see cluster/cluster_round_job.h.
struct ClusterPlan {
  std::string launcher = {};  ///< as the specification names it
  std::chrono::milliseconds timeout{24 * 3'600'000};
};

struct CampaignPlan {
  std::string name = {};
  std::vector<std::string> sources = {};
  std::string watch = {};  ///< folder whose files are appended; empty: none
  std::string id_column = {};
  std::string label_column = {};
  std::string payload_column = {};
  std::string cost_column = {};
  std::vector<std::string> ignored_columns = {};
  std::vector<std::string> classes = {};
  std::string question = {};
  std::vector<ingest::NormalizeStep> normalize = {};  ///< empty if the classifier is tuned
  RoundSpec round = {};
  std::optional<ExternalModel> external = {};
  std::optional<StreamPlan> stream = {};
  std::optional<ClusterPlan> cluster = {};
  std::int64_t full_every = 0;  ///< rounds between trainings from nothing; 0: never
  StoppingRules stop = {};
  std::vector<std::string> validation_sources = {};
  storage::CampaignSettings settings = {};
  storage::Retention retention = {};

  /// The name of a class; empty for kUnlabeled.
  std::string ClassName(ClassIndex index) const {
    return index == kUnlabeled ? std::string() : classes[static_cast<std::size_t>(index)];
  }
};

/// InvalidArgument with everything that is impossible about the specification, a line each with the field's path.
absl::StatusOr<CampaignPlan> PlanCampaign(const v1::CampaignSpec& spec);

/// The specification with the fields that the mask names as they are in `changed`; a field that is not set there gets
/// its default. InvalidArgument for a mask that is empty or names a field that cannot be changed.
absl::StatusOr<v1::CampaignSpec> UpdatedSpec(const v1::CampaignSpec& spec, const v1::CampaignSpec& changed,
                                             const google::protobuf::FieldMask& mask);

/// OK for what may be a campaign's name, which is also a folder's.
absl::Status CheckCampaignName(const std::string& name);

/// The specification from its text in the store; DataLoss if that cannot be read.
absl::StatusOr<v1::CampaignSpec> ParseSpecificationText(const std::string& text);

}  // namespace fulcrum::pipeline
