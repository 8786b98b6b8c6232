// The stages that give every row a class: the classifier, and the blocks of the pool that it predicts.

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "pipeline/round/round_stages.h"
#include "stages/classify/svm_predictor.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// Enough work for a thread, few enough for the blocks of a small pool to be shared evenly.
constexpr std::size_t kRowsPerBlock = 2 * classify::PoolDecisions::kRowsOfBlock;

bool NeedsPredictions(const RoundWork& work) {
  const select::Requirements needs = work.strategy->requirements();
  return needs.predictions || needs.confidence || needs.class_groups || work.always_classify;
}

bool NeedsClassifier(const RoundWork& work) {
  return NeedsPredictions(work) && !work.input.predictions;
}

absl::Status CheckGivenPredictions(const RoundWork& work) {
  if (!work.strategy->requirements().confidence) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("strategy '%s' needs probabilities, and given predictions have none. Leave --predictions out so "
                      "that Fulcrum trains its own classifier, or choose a strategy such as dbalevs.",
                      work.spec.strategy));
}

/// Those of the block that are the pool's; there may be others behind them.
std::size_t RowsOfPool(const RoundWork& work, const RowBlock& block) {
  return std::min(block.first + block.count, work.features.rows()) - std::min(block.first, work.features.rows());
}

absl::Status WriteConfidence(RoundWork& work, std::size_t first, ConstMatrixView decisions) {
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, classify::Probabilities(work.model, decisions));
  for (std::size_t i = 0; i < decisions.rows(); ++i) {
    work.confidence[first + i] = *std::ranges::max_element(probabilities.row(i));
  }
  return absl::OkStatus();
}

absl::Status ClassifyBlock(RoundWork& work, const RowBlock& block) {
  work.memory.decisions.UpdateRows(block.first, block.count);
  const std::size_t count = RowsOfPool(work, block);
  if (count == 0) return absl::OkStatus();
  const ConstMatrixView decisions = work.memory.decisions.values().Rows(block.first, count);
  classify::VoteClasses(work.model, decisions, std::span(work.result.predicted).subspan(block.first, count));
  if (!work.confidence.empty()) return WriteConfidence(work, block.first, decisions);
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainClassifier(RoundWork& work) {
  if (!NeedsClassifier(work)) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(work.model, work.memory.trainer.Train(work.input.labels, work.input.class_count));
  if (work.strategy->requirements().confidence) {
    FULCRUM_RETURN_IF_ERROR(work.memory.trainer.FitProbabilities(work.model));
  }
  const classify::TrainingReport& report = work.memory.trainer.report();
  work.result.svm = SvmReport{.support_vectors = report.support_vectors,
                              .dual_objective = report.objective,
                              .iterations = report.iterations,
                              .warm = report.warm};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RowBlock>> PlanPrediction(RoundWork& work) {
  std::size_t rows = work.features.rows();
  if (NeedsPredictions(work)) {
    work.result.predicted.resize(rows);
    if (work.strategy->requirements().class_groups) work.rows_of_class.resize(work.input.class_count);
  }
  if (NeedsClassifier(work)) {
    work.result.svm->decision_columns_computed = work.memory.decisions.Begin(work.model).columns_updated;
    if (work.strategy->requirements().confidence) work.confidence.resize(rows);
    rows = work.memory.decisions.rows();
  } else if (work.input.predictions) {
    FULCRUM_RETURN_IF_ERROR(CheckGivenPredictions(work));
  }
  std::vector<RowBlock> blocks;
  for (std::size_t first = 0; first < rows; first += kRowsPerBlock) {
    blocks.push_back({blocks.size(), first, std::min(kRowsPerBlock, rows - first)});
  }
  return blocks;
}

absl::Status PredictBlock(RoundWork& work, const RowBlock& block) {
  if (!NeedsPredictions(work)) return absl::OkStatus();
  if (NeedsClassifier(work)) FULCRUM_RETURN_IF_ERROR(ClassifyBlock(work, block));
  for (std::size_t row = block.first; row < block.first + RowsOfPool(work, block); ++row) {
    if (work.input.predictions) work.result.predicted[row] = (*work.input.predictions)[row];
    if (work.input.labels[row] != kUnlabeled) work.result.predicted[row] = work.input.labels[row];
  }
  return absl::OkStatus();
}

absl::Status PartitionBlock(RoundWork& work, const RowBlock& block) {
  if (work.rows_of_class.empty()) return absl::OkStatus();
  for (std::size_t row = block.first; row < block.first + RowsOfPool(work, block); ++row) {
    work.rows_of_class[static_cast<std::size_t>(work.result.predicted[row])].push_back(static_cast<RowIndex>(row));
  }
  return absl::OkStatus();
}

absl::Status FinishPrediction(RoundWork& work) {
  if (NeedsClassifier(work)) work.memory.decisions.Finish();
  return absl::OkStatus();
}

absl::Status PredictPool(RoundWork& work) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<RowBlock> blocks, PlanPrediction(work));
  std::vector<absl::Status> statuses(blocks.size());
  ParallelForBlocks(blocks.size(), 1,
                    [&](std::size_t index, std::size_t) { statuses[index] = PredictBlock(work, blocks[index]); });
  for (const RowBlock& block : blocks) {
    FULCRUM_RETURN_IF_ERROR(statuses[block.index]);
    FULCRUM_RETURN_IF_ERROR(PartitionBlock(work, block));
  }
  return FinishPrediction(work);
}

}  // namespace fulcrum::pipeline
