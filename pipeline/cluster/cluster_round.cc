#include "pipeline/cluster/cluster_round.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/round_stages.h"
#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/landmark_engine.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

/// One round. Every rank makes the same calls in the same order.
class ClusterRun {
 public:
  ClusterRun(const RoundSpec& spec, const ClusterPool& pool, const RoundInput& input, const ProgressCallback& progress)
      : spec_(spec),
        pool_(pool),
        peers_(pool.peers),
        input_(input),
        progress_(progress),
        features_(pool.features),
        candidates_{.spec = spec,
                    .pool = pool,
                    .input = input,
                    .features = features_,
                    .labeled = labeled_rows_,
                    .labels = labels_} {}

  absl::StatusOr<RoundResult> Run() {
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, Check()));
    ShareLabeled();
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, CheckUnlabeled()));
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, ChooseOwnStrategy()));
    FULCRUM_RETURN_IF_ERROR(Measure("train", [this] { return Train(); }));
    FULCRUM_RETURN_IF_ERROR(Measure("predict", [this] { return AgreeOn(peers_, Predict()); }));
    FULCRUM_RETURN_IF_ERROR(Measure("score", [this] { return ScoreGroups(); }));
    FULCRUM_RETURN_IF_ERROR(Measure("select", [this]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(result_.selection, SelectTogether(candidates_, strategy_));
      DropBarred(*request_, result_.selection.picks);
      return absl::OkStatus();
    }));
    result_.predicted = std::move(candidates_.predicted);
    if (input_.confidence) result_.confidence = std::move(candidates_.confidence);
    result_.tuning = spec_.tuning;
    return std::move(result_);
  }

 private:
  template <typename Stage>
  absl::Status Measure(const char* name, const Stage& stage) {
    if (progress_) progress_(name, 0, 1);
    const Clock::time_point start = Clock::now();
    const absl::Status status = stage();
    result_.seconds.push_back({name, std::chrono::duration<double>(Clock::now() - start).count()});
    if (progress_) progress_(name, 1, 1);
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
  }

  absl::Status Check() const {
    FULCRUM_RETURN_IF_ERROR(ValidateRoundSpec(spec_));
    if (spec_.cost_budget > 0) {
      return absl::InvalidArgumentError("a cost budget is kept by one process only; run it without others");
    }
    if (input_.given_probabilities) {
      return absl::InvalidArgumentError(
          "given probabilities are not divided between processes; give the predicted classes, or run it in one "
          "process");
    }
    if (pool_.features.kind() != kernel::FeatureKind::kDense) {
      return absl::InvalidArgumentError(
          "the features of the pool are sparse, and only dense pools can be spread over processes; normalize by "
          "zscore, which makes them dense, or run it in one process");
    }
    RowList rows(pool_.features.rows());
    std::iota(rows.begin(), rows.end(), RowIndex{0});
    return CheckKernels(spec_, pool_.features, rows);
  }

  absl::Status CheckUnlabeled() const {
    const std::size_t left = pool_.share.total - labels_.size();
    if (left == 0) {
      return absl::OutOfRangeError(
          absl::StrCat("all ", labels_.size(), " rows of the pool are labeled; nothing is left to select"));
    }
    if (left > input_.barred.size()) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(
        "the ", left, " rows of the pool without a label are disputed or set aside; nothing is left to select"));
  }

  /// The labeled rows of the pool become guests of every rank.
  void ShareLabeled() {
    const RowList own = select::LabeledRows(input_.labels);
    std::vector<ClassIndex> labels;
    for (const RowIndex row : own) labels.push_back(input_.labels[row]);
    labels_ = ShareValues(peers_, std::move(labels));
    // A rank without rows has no weights either, and makes the same calls as the others.
    const std::vector<int> weighted = ShareValue(peers_, input_.weights.empty() ? 0 : 1);
    if (std::ranges::any_of(weighted, [](int some) { return some != 0; })) {
      std::vector<double> weights;
      for (const RowIndex row : own) weights.push_back(input_.weights[row]);
      weights_ = GatherValues(peers_, std::move(weights));
    }
    labeled_values_ = kernel::ShareRows(peers_, pool_.features, own);
    labeled_rows_ = features_.Add(labeled_values_.view());
  }

  absl::Status ChooseOwnStrategy() {
    labels_of_class_ = CountLabels(labels_, input_.class_count);
    FULCRUM_ASSIGN_OR_RETURN(strategy_, ChooseStrategy(spec_, labels_of_class_, input_.predictions.has_value()));
    FULCRUM_RETURN_IF_ERROR(CheckClusterStrategy(strategy_.name));
    FULCRUM_ASSIGN_OR_RETURN(select_, select::MakeStrategy(strategy_.name));
    request_.emplace(RoundRequest{.spec = spec_,
                                  .features = pool_.features,
                                  .input = input_,
                                  .strategy = *select_,
                                  .needs = select_->requirements()});
    if (input_.predictions) return CheckGivenClasses(strategy_.name, request_->needs);
    if (!request_->NeedsClassifier()) return absl::OkStatus();
    if (input_.confidence) request_->needs.confidence = true;
    // Decision values are kept for a block of rows at a time.
    return CheckClassPairs(labels_of_class_, kRowsPerBlock, spec_.memory_bytes);
  }

  absl::Status Train() {
    if (!request_->NeedsClassifier()) return absl::OkStatus();
    SvmReport report;
    absl::Status trained;
    if (peers_.is_root()) trained = TrainAtRoot(report);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, trained));
    result_.svm = BroadcastValue(peers_, report);
    BroadcastModel();
    return absl::OkStatus();
  }

  absl::Status TrainAtRoot(SvmReport& report) {
    const kernel::DenseFeatures labeled(labeled_values_.Clone(), pool_.features.precision());
    const std::unique_ptr<classify::Classifier> classifier = classify::MakeClassifier(spec_.svm, labeled);
    classifier->UseWeights(weights_);
    FULCRUM_ASSIGN_OR_RETURN(model_, classifier->Train(labels_, input_.class_count));
    if (request_->NeedsProbabilities() || input_.probabilities)
      FULCRUM_RETURN_IF_ERROR(classifier->FitProbabilities(model_));
    report = {.support_vectors = classifier->report().support_vectors,
              .dual_objective = classifier->report().objective,
              .iterations = classifier->report().iterations,
              .warm = false,
              .decision_columns_computed = model_.support_rows.size()};
    return absl::OkStatus();
  }

  /// Support rows are positions among the labeled rows.
  void BroadcastModel() {
    model_.class_count = input_.class_count;
    model_.kernel = BroadcastValue(peers_, model_.kernel);
    BroadcastValues(peers_, model_.pairs);
    BroadcastValues(peers_, model_.support_rows);
    std::vector<double> coefficients;
    for (std::size_t i = 0; i < model_.coefficients.rows(); ++i) {
      coefficients.insert(coefficients.end(), model_.coefficients.row(i).begin(), model_.coefficients.row(i).end());
    }
    BroadcastValues(peers_, coefficients);
    model_.coefficients =
        Matrix<double>::CopyOf(ConstMatrixView(coefficients.data(), model_.support_rows.size(), model_.pairs.size()));
    result_.model = std::make_shared<const classify::SvmModel>(model_.Clone());
  }

  absl::Status Predict() {
    if (!request_->NeedsPredictions()) return absl::OkStatus();
    const std::size_t rows = pool_.features.rows();
    candidates_.predicted.resize(rows);
    if (request_->NeedsClassifier()) {
      FULCRUM_RETURN_IF_ERROR(Classify());
    } else {
      std::ranges::copy(*input_.predictions, candidates_.predicted.begin());
    }
    for (std::size_t row = 0; row < rows; ++row) {
      if (input_.labels[row] != kUnlabeled) candidates_.predicted[row] = input_.labels[row];
    }
    return absl::OkStatus();
  }

  absl::Status Classify() {
    const std::size_t rows = pool_.features.rows(), classes = input_.class_count;
    if (request_->needs.margin) candidates_.margin.resize(rows);
    if (request_->needs.confidence) candidates_.confidence.resize(rows);
    if (request_->needs.probabilities) candidates_.probabilities.resize(rows * classes);
    RowList support;
    for (const RowIndex position : model_.support_rows) support.push_back(labeled_rows_[position]);
    const classify::KernelProduct product(model_.kernel, {&features_, support, model_.coefficients.view()}, features_);
    std::vector<double> offsets;
    for (const classify::SvmPair& pair : model_.pairs) offsets.push_back(0 - pair.rho);
    // Shares begin at multiples of a block, so that values are those of a round in one process.
    std::vector<absl::Status> failed((rows + kRowsPerBlock - 1) / kRowsPerBlock);
    ParallelForBlocks(rows, kRowsPerBlock, [&](std::size_t first, std::size_t count) {
      RowList block(count);
      std::iota(block.begin(), block.end(), static_cast<RowIndex>(first));
      std::vector<double> values(count * model_.pairs.size());
      const MutableMatrixView decisions(values.data(), count, model_.pairs.size());
      product.Compute(block, offsets, /*accumulate=*/false, decisions);
      const std::span<ClassIndex> of_block = std::span(candidates_.predicted).subspan(first, count);
      classify::VoteClasses(model_, decisions, of_block);
      if (request_->needs.margin) {
        classify::VoteMargins(model_, decisions, of_block, std::span(candidates_.margin).subspan(first, count));
      }
      if (!request_->NeedsProbabilities()) return;
      const absl::StatusOr<Matrix<double>> probabilities = classify::Probabilities(model_, decisions);
      failed[first / kRowsPerBlock] = probabilities.status();
      for (std::size_t i = 0; probabilities.ok() && i < count; ++i) {
        const std::span<const double> row = probabilities->row(i);
        if (request_->needs.confidence) candidates_.confidence[first + i] = *std::ranges::max_element(row);
        if (request_->needs.probabilities)
          std::ranges::copy(row, candidates_.probabilities.begin() + (first + i) * classes);
      }
    });
    for (const absl::Status& status : failed) FULCRUM_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  absl::Status ScoreGroups() {
    const std::size_t classes = request_->needs.class_groups ? input_.class_count : 0;
    const std::size_t groups = classes + (request_->needs.pool_leverage ? 1 : 0);
    if (groups > 0) result_.leverage.assign(pool_.features.rows(), 0.0);
    for (std::size_t c = 0; c < classes; ++c) {
      ClusterGroup group{.class_index = static_cast<ClassIndex>(c)};
      for (std::size_t row = 0; row < candidates_.predicted.size(); ++row) {
        if (candidates_.predicted[row] == group.class_index) group.rows.push_back(static_cast<RowIndex>(row));
      }
      FULCRUM_RETURN_IF_ERROR(ScoreGroup(group, groups));
      candidates_.groups.push_back(std::move(group));
    }
    if (request_->needs.pool_leverage) {
      ClusterGroup group{.class_index = kWholePool};
      group.rows.resize(pool_.features.rows());
      std::iota(group.rows.begin(), group.rows.end(), RowIndex{0});
      FULCRUM_RETURN_IF_ERROR(ScoreGroup(group, groups));
      candidates_.pool_leverage = std::move(group.leverage);
    }
    return absl::OkStatus();
  }

  absl::Status ScoreGroup(ClusterGroup& group, std::size_t groups) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      if (input_.labels[group.rows[i]] != kUnlabeled) group.labeled.push_back(i);
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (group.class_index == kWholePool || labels_[i] == group.class_index) group.given.push_back(labeled_rows_[i]);
    }
    group.labeled_total = group.given.size();
    const std::vector<std::size_t> sizes = ShareValue(peers_, group.rows.size());
    const auto mine = sizes.begin() + peers_.rank();
    group.first = std::accumulate(sizes.begin(), mine, std::size_t{0});
    group.total = std::accumulate(mine, sizes.end(), group.first);
    ClassReport report;
    report.class_index = group.class_index;
    report.rows = group.total;
    report.labeled = group.labeled_total;
    if (group.total == 0) {
      report.engine = "none";
      report.reason = "the class is empty";
    } else {
      FULCRUM_RETURN_IF_ERROR(ScoreRowsOf(group, RequestFor(groups), report));
    }
    report.seconds.push_back({"score", std::chrono::duration<double>(Clock::now() - start).count()});
    for (std::size_t i = 0; i < group.leverage.size(); ++i) result_.leverage[group.rows[i]] = group.leverage[i];
    result_.classes.push_back(std::move(report));
    return absl::OkStatus();
  }

  /// Nothing in it depends on the number of processes or of their threads.
  leverage::ClassRequest RequestFor(std::size_t groups) const {
    return {.tau = spec_.tau,
            .seed = spec_.seed,
            .memory_bytes = (spec_.memory_bytes > 0 ? spec_.memory_bytes : UsableMemoryBytes()) / groups,
            .threads = 1,
            .landmarks = spec_.landmarks,
            .may_refine = spec_.refine_landmarks};
  }

  absl::Status ScoreRowsOf(ClusterGroup& group, const leverage::ClassRequest& request, ClassReport& report) {
    leverage::ClassRequest settled = request;
    absl::StatusOr<leverage::EngineChoice> choice =
        leverage::ChooseEngine(spec_.engine, leverage::SizeOfClass(pool_.features, group.total, request));
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, choice.status()));
    // The root decides, in case that machines differ.
    const bool whole_kernel = choice->form != leverage::KernelForm::kLandmarks || choice->refine;
    group.is_gathered = BroadcastValue(peers_, whole_kernel ? 1 : 0) == 1;
    if (group.is_gathered) return ScoreAtRoot(group, request, report);
    if (settled.landmarks == 0) settled.landmarks = BroadcastValue(peers_, choice->landmarks);
    FULCRUM_ASSIGN_OR_RETURN(
        leverage::ClassScores scored,
        leverage::ScoreSharedClass(spec_.leverage_kernel, {peers_, features_, group.rows, pool_.share}, settled));
    group.leverage = std::move(scored.scores);
    group.rank = scored.rank;
    NoteScores(scored, report);
    return absl::OkStatus();
  }

  static void NoteScores(const leverage::ClassScores& scored, ClassReport& report) {
    report.rank = scored.rank;
    report.trace_share = scored.trace_share;
    report.engine = scored.engine;
    report.reason = scored.reason;
    report.residual = scored.residual;
    report.products = scored.products;
    report.degenerate_cut = scored.degenerate_cut;
  }

  absl::Status ScoreAtRoot(ClusterGroup& group, const leverage::ClassRequest& request, ClassReport& report) {
    std::vector<ClassIndex> labels;
    for (const RowIndex row : group.rows) labels.push_back(input_.labels[row]);
    labels = GatherValues(peers_, std::move(labels));
    Matrix<double> values = kernel::GatherRows(peers_, pool_.features, group.rows);
    std::vector<double> scores;  // by position in the class
    absl::Status status;
    if (peers_.is_root()) {
      group.gathered = std::make_shared<GatheredClass>();
      GatheredClass& gathered = *group.gathered;
      gathered.labels = std::move(labels);
      gathered.features = std::make_unique<kernel::DenseFeatures>(std::move(values), pool_.features.precision());
      status = ScoreGathered(gathered, request);
      if (status.ok()) {
        NoteScores(gathered.scored, report);
        scores.resize(group.total);
        for (std::size_t i = 0; i < group.total; ++i) scores[gathered.scored.rows[i]] = gathered.scored.scores[i];
      }
    }
    FULCRUM_RETURN_IF_ERROR(AgreeOn(peers_, status));
    BroadcastValues(peers_, scores);
    group.leverage.assign(scores.begin() + static_cast<std::ptrdiff_t>(group.first),
                          scores.begin() + static_cast<std::ptrdiff_t>(group.first + group.rows.size()));
    group.rank = BroadcastValue(peers_, report.rank);
    return absl::OkStatus();
  }

  absl::Status ScoreGathered(GatheredClass& gathered, const leverage::ClassRequest& request) const {
    FULCRUM_ASSIGN_OR_RETURN(gathered.engine,
                             leverage::MakeLeverageEngine(spec_.engine, {spec_.leverage_kernel, *gathered.features}));
    RowList rows(gathered.features->rows());
    std::iota(rows.begin(), rows.end(), RowIndex{0});
    FULCRUM_ASSIGN_OR_RETURN(gathered.scored, gathered.engine->Score(rows, request));
    return absl::OkStatus();
  }

  static constexpr std::size_t kRowsPerBlock = 2 * classify::KernelProduct::kBlockRows;

  const RoundSpec& spec_;
  const ClusterPool& pool_;
  const Communicator& peers_;
  const RoundInput& input_;
  const ProgressCallback& progress_;
  kernel::GuestFeatures features_;
  std::vector<ClassIndex> labels_;  // of all labeled rows of the pool, in their order
  std::vector<double> weights_;     // of those, at the root; empty: all weigh 1
  Matrix<double> labeled_values_;
  RowList labeled_rows_;                      // as guests
  std::vector<std::size_t> labels_of_class_;  // of the whole pool
  RoundStrategy strategy_;
  std::unique_ptr<select::Strategy> select_;
  std::optional<RoundRequest> request_;  // of the own rows, once the strategy is chosen
  classify::SvmModel model_;
  ClusterCandidates candidates_;
  RoundResult result_;
};

}  // namespace

absl::StatusOr<RoundResult> RunClusterRound(const RoundSpec& spec, const ClusterPool& pool, const RoundInput& input,
                                            const ProgressCallback& progress) {
  return ClusterRun(spec, pool, input, progress).Run();
}

}  // namespace fulcrum::pipeline
