#include <algorithm>
#include <numeric>
#include <utility>

#include "pipeline/round/round_stages.h"
#include "stages/classify/svm_model.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// Enough work for a thread, few enough for the blocks of a small pool to be shared evenly.
constexpr std::size_t kRowsPerBlock = 2 * classify::PoolDecisions::kRowsOfBlock;

/// How many of the block's rows are the pool's; rows of a test set may follow them.
std::size_t RowsOfPool(const RoundRequest& request, const BlockRange& range) {
  const std::size_t pool_rows = request.features.rows();
  return std::min(range.first + range.count, pool_rows) - std::min(range.first, pool_rows);
}

absl::Status ClassifyRows(const RoundRequest& request, ConstMatrixView decisions, PredictedBlock& block) {
  const classify::SvmModel& model = *block.range.plan->classifier->model;
  classify::VoteClasses(model, decisions, block.classes);
  if (request.needs.margin) {
    block.margin.resize(block.classes.size());
    classify::VoteMargins(model, decisions, block.classes, block.margin);
  }
  if (!request.NeedsProbabilities()) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, classify::Probabilities(model, decisions));
  for (std::size_t i = 0; i < decisions.rows(); ++i) {
    const std::span<const double> row = probabilities.row(i);
    if (request.needs.confidence) block.confidence.push_back(*std::ranges::max_element(row));
    if (request.needs.probabilities) block.probabilities.insert(block.probabilities.end(), row.begin(), row.end());
  }
  return absl::OkStatus();
}

/// Classes, margins and confidences from the probabilities of a model of the user's own.
void TakeGivenProbabilities(const RoundRequest& request, PredictedBlock& block) {
  const std::size_t classes = request.input.class_count;
  for (std::size_t i = 0; i < block.classes.size(); ++i) {
    const std::span<const float> given =
        request.input.given_probabilities->subspan((block.range.first + i) * classes, classes);
    double sum = 0, first = -1, second = -1;
    for (std::size_t c = 0; c < classes; ++c) {
      const double p = given[c];
      sum += p;
      if (p > first) {
        second = std::exchange(first, p);
        block.classes[i] = static_cast<ClassIndex>(c);
      } else {
        second = std::max(second, p);
      }
    }
    if (request.needs.margin) block.margin.push_back((first - second) / sum);
    if (request.needs.confidence) block.confidence.push_back(first / sum);
    if (!request.needs.probabilities) continue;
    for (const float p : given) block.probabilities.push_back(p / sum);
  }
}

}  // namespace

absl::StatusOr<TrainedClassifier> TrainClassifier(const RoundRequest& request, classify::Classifier& classifier) {
  TrainedClassifier trained;
  if (!request.NeedsClassifier()) return trained;
  classifier.UseWeights(request.input.weights);
  FULCRUM_ASSIGN_OR_RETURN(classify::SvmModel model, classifier.Train(request.input.labels, request.input.class_count));
  if (request.NeedsProbabilities() || request.input.probabilities)
    FULCRUM_RETURN_IF_ERROR(classifier.FitProbabilities(model));
  const classify::TrainingReport& report = classifier.report();
  trained.report = SvmReport{.support_vectors = report.support_vectors,
                             .dual_objective = report.objective,
                             .iterations = report.iterations,
                             .warm = report.warm};
  trained.model = std::make_shared<const classify::SvmModel>(std::move(model));
  return trained;
}

absl::StatusOr<std::vector<BlockRange>> PlanBlocks(const RoundRequest& request,
                                                   std::shared_ptr<const TrainedClassifier> classifier,
                                                   classify::PoolDecisions& decisions) {
  std::size_t rows = request.features.rows();
  BlockPlan plan;
  if (request.NeedsClassifier()) {
    plan.columns_computed = decisions.Begin(*classifier->model).columns_updated;
    rows = decisions.rows();
  } else if (request.input.predictions && !request.input.given_probabilities) {
    FULCRUM_RETURN_IF_ERROR(CheckGivenClasses(request.spec.strategy, request.needs));
  }
  plan.classifier = std::move(classifier);
  plan.blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const auto shared = std::make_shared<const BlockPlan>(std::move(plan));
  std::vector<BlockRange> ranges;
  for (std::size_t first = 0; first < rows; first += kRowsPerBlock) {
    ranges.push_back({shared, ranges.size(), first, std::min(kRowsPerBlock, rows - first)});
  }
  return ranges;
}

RowBlock ReadBlock(const RoundRequest& request, const BlockRange& range, const classify::PoolDecisions& decisions) {
  RowBlock block{.range = range, .rows = {}};
  if (request.NeedsClassifier()) block.rows = decisions.ReadRows(range.first, range.count);
  return block;
}

absl::StatusOr<PredictedBlock> PredictBlock(const RoundRequest& request, const RowBlock& block,
                                            classify::PoolDecisions& decisions) {
  const BlockRange& range = block.range;
  PredictedBlock predicted{.range = range, .classes = {}, .confidence = {}, .margin = {}, .probabilities = {}};
  if (!request.NeedsPredictions()) return predicted;
  const std::size_t count = RowsOfPool(request, range);
  predicted.classes.resize(count);
  if (request.NeedsClassifier()) {
    decisions.UpdateRows(range.first, range.count, block.rows);
    if (count > 0) {
      FULCRUM_RETURN_IF_ERROR(ClassifyRows(request, decisions.values().Rows(range.first, count), predicted));
    }
  } else if (request.input.given_probabilities) {
    TakeGivenProbabilities(request, predicted);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = range.first + i;
    if (request.input.predictions) predicted.classes[i] = (*request.input.predictions)[row];
    if (request.input.labels[row] != kUnlabeled) predicted.classes[i] = request.input.labels[row];
  }
  return predicted;
}

Partition::Partition(const RoundRequest& request) : request_(request) {
  const std::size_t rows = request.features.rows();
  if (request.NeedsPredictions()) pool_.predicted.reserve(rows);
  if (request.needs.confidence) pool_.confidence.reserve(rows);
  if (request.needs.margin) pool_.margin.reserve(rows);
  if (request.needs.probabilities) pool_.probabilities.reserve(rows * request.input.class_count);
}

void Partition::Take(const PredictedBlock& block) {
  pool_.predicted.insert(pool_.predicted.end(), block.classes.begin(), block.classes.end());
  const auto append = [](std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  append(pool_.confidence, block.confidence);
  append(pool_.margin, block.margin);
  append(pool_.probabilities, block.probabilities);
  if (!request_.needs.class_groups) return;
  rows_of_class_.resize(request_.input.class_count);
  for (std::size_t i = 0; i < block.classes.size(); ++i) {
    rows_of_class_[static_cast<std::size_t>(block.classes[i])].push_back(static_cast<RowIndex>(block.range.first + i));
  }
}

Partition::Groups Partition::Finish(const BlockPlan& plan, classify::PoolDecisions& decisions) {
  if (request_.NeedsClassifier()) decisions.Finish();
  pool_.classifier = plan.classifier;
  pool_.columns_computed = plan.columns_computed;
  pool_.groups = rows_of_class_.size() + (request_.needs.pool_leverage ? 1 : 0);
  Groups groups;
  groups.pool = std::make_shared<const PredictedPool>(std::move(pool_));
  for (std::size_t c = 0; c < rows_of_class_.size(); ++c) {
    groups.classes.push_back(std::make_shared<const ClassRows>(
        ClassRows{groups.pool, static_cast<ClassIndex>(c), std::move(rows_of_class_[c])}));
  }
  if (request_.needs.pool_leverage) {
    RowList all(request_.features.rows());
    std::iota(all.begin(), all.end(), RowIndex{0});
    groups.classes.push_back(std::make_shared<const ClassRows>(ClassRows{groups.pool, kWholePool, std::move(all)}));
  }
  return groups;
}

}  // namespace fulcrum::pipeline
