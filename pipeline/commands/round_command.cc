// `fulcrum round`: a round of a campaign as a job, which a daemon starts (pipeline/campaign/cluster).

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/cluster/cluster_round.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kRoundFooter[] =
    R"(A daemon starts it, by a launcher such as mpirun, for campaigns with selection.cluster. It reads the plan of the
round and the campaign's pool, and writes the batch, the model and the scores next to the plan. It ends when the plan
is removed. See docs/cluster.md.)";

/// Ends the process when the daemon has removed the plan: the round is no longer wanted.
class PlanWatch {
 public:
  explicit PlanWatch(std::string plan)
      : thread_([plan = std::move(plan)](const std::stop_token& stop) { Watch(plan, stop); }) {}

 private:
  static void Watch(const std::string& plan, const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLook{500};
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    while (!woken.wait_for(lock, stop, kLook, [] { return false; }) && !stop.stop_requested()) {
      std::error_code error;
      // A file system that cannot be reached for now says something else.
      if (std::filesystem::exists(plan, error) || error) continue;
      std::fprintf(stderr, "fulcrum round: ended, because its plan '%s' was removed\n", plan.c_str());
      _exit(kExitTryAgain);
    }
  }

  std::jthread thread_;
};

/// What the round needs of the plan, by row.
struct PlannedRound {
  CampaignPlan campaign = {};
  storage::CampaignFolder folder;
  std::vector<ClassIndex> labels = {};
  std::vector<double> weights = {};  ///< empty: all weigh 1
  RowList barred = {};
  std::shared_ptr<const TunedSettings> tuning = nullptr;

  /// For these rows of the pool.
  RoundInput InputFor(const job::RoundPlan& plan, const RowShare& share) const {
    const auto classes = static_cast<std::size_t>(std::ranges::count(ClassesWithLabels(), true));
    return {.class_count = campaign.classes.size(),
            .labels = std::span(labels).subspan(share.first, share.count),
            .predictions = {},
            .queries_so_far = static_cast<std::size_t>(plan.labels_size()),
            .weights = weights.empty() ? std::span<const double>()
                                       : std::span<const double>(weights).subspan(share.first, share.count),
            .barred = barred,
            .always_classify = classes >= 2,
            .probabilities = classes >= 2};
  }

 private:
  std::vector<bool> ClassesWithLabels() const {
    std::vector<bool> present(campaign.classes.size(), false);
    for (const ClassIndex label : labels) {
      if (label != kUnlabeled) present[static_cast<std::size_t>(label)] = true;
    }
    return present;
  }
};

absl::StatusOr<PlannedRound> ReadPlanned(const job::RoundPlan& plan) {
  FULCRUM_ASSIGN_OR_RETURN(const v1::CampaignSpec spec, ParseSpecificationText(plan.specification()));
  PlannedRound planned{.folder = storage::CampaignFolder(plan.folder())};
  FULCRUM_ASSIGN_OR_RETURN(planned.campaign, PlanCampaign(spec));
  planned.campaign.round.memory_bytes = plan.round_memory_bytes();
  // The daemon measures on it.
  planned.campaign.validation_sources.clear();
  planned.labels.assign(plan.rows(), kUnlabeled);
  if (plan.weights_size() > 0) planned.weights.assign(plan.rows(), 1.0);
  bool fits = plan.labels_size() == plan.labeled_rows_size() &&
              (plan.weights_size() == 0 || plan.weights_size() == plan.labels_size());
  for (int i = 0; fits && i < plan.labels_size(); ++i) {
    const std::size_t row = plan.labeled_rows(i);
    const auto classes = static_cast<ClassIndex>(planned.campaign.classes.size());
    fits = row < plan.rows() && plan.labels(i) >= 0 && plan.labels(i) < classes;
    if (!fits) break;
    planned.labels[row] = plan.labels(i);
    if (!planned.weights.empty()) planned.weights[row] = plan.weights(i);
  }
  if (!fits) return absl::DataLossError("the labels of the plan do not fit its pool");
  planned.barred.assign(plan.barred().begin(), plan.barred().end());
  if (!plan.tuning().empty()) {
    v1::ClassifierTuning tuning;
    if (!tuning.ParseFromString(plan.tuning())) return absl::DataLossError("the settings of the plan cannot be read");
    planned.tuning = TuningFrom(tuning);
  }
  return planned;
}

absl::StatusOr<std::shared_ptr<const CampaignPool>> LoadPool(const job::RoundPlan& plan, const PlannedRound& planned) {
  FULCRUM_ASSIGN_OR_RETURN(auto pool, CampaignPool::Load(planned.campaign, planned.folder, plan.pool_memory_bytes()));
  for (const std::string& appended : plan.appended()) {
    FULCRUM_ASSIGN_OR_RETURN(pool, pool->With(planned.folder.File(appended)));
  }
  if (pool->rows() == plan.rows()) return pool;
  return absl::DataLossError(
      absl::StrCat("the pool has ", pool->rows(), " rows here, and ", plan.rows(), " in the plan of the round"));
}

/// As the daemon does, without what it keeps from round to round.
absl::StatusOr<RoundResult> RunAlone(const job::RoundPlan& plan, const PlannedRound& planned,
                                     const ProgressCallback& progress) {
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, LoadPool(plan, planned));
  const RoundInput input = planned.InputFor(plan, ShareOfRank(plan.rows(), 0, 1));
  if (!planned.campaign.round.tune) return RoundRunner(planned.campaign.round, pool->features()).Run(input, progress);
  TunedRunner runner(planned.campaign.round);
  runner.Recall(planned.tuning);
  return runner.Run(*pool, input, progress);
}

/// The pool of one of several processes, before it is normalised by settings that are yet to be chosen.
struct SharedPool {
  std::optional<MappedSource> mapped = {};                ///< the own rows, if the pool stays on the disk
  std::shared_ptr<const CampaignPool> whole = nullptr;    ///< otherwise all rows
  std::shared_ptr<const kernel::Features> features = {};  ///< the own rows, normalised
};

absl::StatusOr<SharedPool> OpenShare(const job::RoundPlan& plan, const PlannedRound& planned,
                                     const Communicator& peers) {
  SharedPool pool;
  if (plan.appended().empty()) {
    FULCRUM_ASSIGN_OR_RETURN(
        pool.mapped, MapPoolShare(planned.folder.imported_pool(), planned.campaign.normalize, plan.pool_memory_bytes(),
                                  static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(peers.size())));
  }
  if (pool.mapped) return pool;
  FULCRUM_ASSIGN_OR_RETURN(pool.whole, LoadPool(plan, planned));
  if (pool.whole->sparse() || pool.whole->features().in_memory() != nullptr) {
    return pool;
  }
  return absl::FailedPreconditionError(
      "rows were appended to a pool that is too large for the memory, and only its first rows can be divided between "
      "processes; let the launcher start one process, leave selection.cluster out, or create a campaign with all rows");
}

/// The same on every rank. Only the root reads what it takes to choose.
absl::StatusOr<std::shared_ptr<const TunedSettings>> ChooseSettings(const PlannedRound& planned, const SharedPool& pool,
                                                                    const Communicator& peers) {
  if (planned.tuning != nullptr && !ShouldTuneAgain(*planned.tuning, planned.labels)) return planned.tuning;
  return ChooseTogether(peers, [&]() -> absl::StatusOr<std::shared_ptr<const TunedSettings>> {
    const std::unique_ptr<FeatureSource> mapped = pool.mapped ? SourceOfWholePool(pool.mapped->pool) : nullptr;
    const FeatureSource* source = pool.whole.get();
    if (mapped != nullptr) source = mapped.get();
    FULCRUM_ASSIGN_OR_RETURN(TunedSettings chosen,
                             Tune(*source, planned.labels, planned.campaign.round.seed, planned.weights,
                                  planned.campaign.round.svm.class_weights.empty()));
    return std::make_shared<const TunedSettings>(std::move(chosen));
  });
}

/// `normalize` is what was chosen; empty if the classifier is not tuned.
absl::Status NormalizeShare(const std::string& normalize, const RowShare& share, SharedPool& pool) {
  if (pool.mapped) {
    const std::unique_ptr<storage::MappedFeatures>& raw = pool.mapped->features;
    if (normalize.empty()) {
      pool.features = std::move(pool.mapped->features);
      return absl::OkStatus();
    }
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer,
                             MappedFeatureSource(*raw, pool.mapped->pool).NormalizerFor(normalize));
    pool.features = raw->NormalizedWith(*normalizer);
    pool.mapped->features.reset();
    return absl::OkStatus();
  }
  PreparedFeatures prepared;
  if (!normalize.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(prepared, pool.whole->Prepare(normalize));
  }
  const kernel::Features& all = normalize.empty() ? pool.whole->features() : *prepared.pool;
  const kernel::DenseFeatures* const dense = all.in_memory();
  if (dense == nullptr) {
    return absl::InvalidArgumentError(
        "the features of the pool are sparse, and only dense pools can be spread over processes; let the launcher "
        "start one process, normalize by zscore, which makes them dense, or leave selection.cluster out");
  }
  pool.features = std::make_shared<const kernel::DenseFeatures>(
      Matrix<double>::CopyOf(dense->values().Rows(share.first, share.count)), dense->precision());
  pool.whole.reset();
  return absl::OkStatus();
}

/// "pool-labels", as CheckSameInputs wants it.
absl::StatusOr<std::string> Fingerprint(const job::RoundPlan& plan, const PlannedRound& planned) {
  Checksum of_pool, of_plan;
  of_plan.Add(plan.SerializeAsString());
  std::vector<std::string> folders = {planned.folder.imported_pool()};
  for (const std::string& appended : plan.appended()) folders.push_back(planned.folder.File(appended));
  for (const std::string& folder : folders) {
    FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(folder));
    for (const storage::PoolPart& part : pool.manifest().parts) {
      for (const storage::PoolBlockRecord& block : part.blocks) of_pool.Add(absl::StrCat(block.checksum, " "));
    }
  }
  return absl::StrCat(of_pool.value(), "-", of_plan.value());
}

absl::StatusOr<RoundResult> RunTogether(const job::RoundPlan& plan, const PlannedRound& planned,
                                        const ProgressCallback& progress, const Communicator& peers) {
  // Before the first labels another strategy is used, and the campaign should not fail after them.
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, CheckClusterStrategy(planned.campaign.round.strategy)));
  const absl::StatusOr<std::string> fingerprint = Fingerprint(plan, planned);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, fingerprint.status()));
  FULCRUM_RETURN_IF_ERROR(CheckSameInputs(peers, *fingerprint));
  absl::StatusOr<SharedPool> pool = OpenShare(plan, planned, peers);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, pool.status()));
  RoundSpec spec = planned.campaign.round;
  std::string normalize;
  if (spec.tune) {
    if (progress) progress("tune", 0, 1);
    FULCRUM_ASSIGN_OR_RETURN(spec.tuning, ChooseSettings(planned, *pool, peers));
    UseChoice(spec.tuning->chosen, planned.campaign.classes.size(), spec.svm);
    if (spec.leverage_follows) spec.leverage_kernel = spec.tuning->leverage_kernel;
    normalize = spec.tuning->chosen.normalize;
  }
  const RowShare share =
      ShareOfRank(plan.rows(), static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(peers.size()));
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, NormalizeShare(normalize, share, *pool)));
  FULCRUM_ASSIGN_OR_RETURN(RoundResult result, RunClusterRound(spec, {peers, *pool->features, share},
                                                               planned.InputFor(plan, share), progress));
  result.predicted = GatherValues(peers, std::move(result.predicted));
  result.leverage = GatherValues(peers, std::move(result.leverage));
  if (result.model) {
    // Its support vectors are counted among the labeled rows.
    classify::SvmModel model = result.model->Clone();
    for (RowIndex& row : model.support_rows) row = plan.labeled_rows(static_cast<int>(row));
    result.model = std::make_shared<const classify::SvmModel>(std::move(model));
  }
  return result;
}

/// What the root is doing, for the daemon; a few times a second.
class ProgressWriter {
 public:
  explicit ProgressWriter(const RoundFiles& files) : files_(files) {}

  void Note(std::string_view stage, std::size_t done, std::size_t total) {
    constexpr std::chrono::milliseconds kPause{200};
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (stage == stage_ && now < written_ + kPause) return;
    stage_ = stage;
    written_ = now;
    files_.WriteProgress({.stage = stage_, .done = done, .total = total});
  }

 private:
  const RoundFiles& files_;
  std::mutex mutex_;
  std::string stage_;
  std::chrono::steady_clock::time_point written_ = {};
};

absl::Status RunJob(const std::string& path, const Communicator& peers) {
  const RoundFiles files = RoundFiles::NextTo(path);
  const absl::StatusOr<job::RoundPlan> plan = files.ReadPlan();
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, plan.status()));
  const PlanWatch watch(files.plan());
  ProgressWriter writer(files);
  ProgressCallback progress;
  if (peers.is_root()) {
    progress = [&](std::string_view stage, std::size_t done, std::size_t total) { writer.Note(stage, done, total); };
  }
  const absl::StatusOr<PlannedRound> planned = ReadPlanned(*plan);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, planned.status()));
  const absl::StatusOr<RoundResult> result =
      peers.is_alone() ? RunAlone(*plan, *planned, progress) : RunTogether(*plan, *planned, progress, peers);
  // An error may be that of this process alone, and the others wait elsewhere.
  if (!result.ok()) {
    if (peers.is_root()) FULCRUM_RETURN_IF_ERROR(files.WriteOutcome(*plan, result));
    return result.status();
  }
  return AgreeOn(peers, peers.is_root() ? files.WriteOutcome(*plan, result) : absl::OkStatus());
}

CommandRun AddRound(CLI::App& app) {
  auto plan = std::make_shared<std::string>();
  app.add_option("--plan", *plan, "The plan that the daemon has written")->type_name("FILE")->required();
  app.footer(absl::StrCat(kRoundFooter, "\n\n", ExitCodeHelp()));
  return [plan] {
    return RunInProcesses("fulcrum round", ExitCodeFor,
                          [&](const Communicator& peers) { return RunJob(*plan, peers); });
  };
}

}  // namespace

Command RoundCommand() {
  return {"round", "Daemon", "Compute a round of a campaign as a job of the daemon", AddRound,
          Command::Processes::kDivideTheWork};
}

}  // namespace fulcrum::pipeline
