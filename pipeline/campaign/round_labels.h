// What a round reads from the log: labels with their weights, and which rows must not be selected.
//
// A function of the log up to a sequence, like all that follows from it. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/model/held_out.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "stages/core/rows.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::pipeline {

struct RoundLabels {
  std::vector<ClassIndex> of_rows = {};
  std::vector<double> weights = {};  ///< by row; empty: all weigh 1
  RowList barred = {};               ///< disputed, set aside, or about to be asked about again
  std::int64_t count = 0;
  std::size_t classes = 0;    ///< with at least one label
  LabeledRows weighted = {};  ///< the same in the order in which they were decided; only if they weigh differently
  RowList voted = {};         ///< rows with votes that do not decide them; the next batch begins with them
  std::size_t carried = 0;    ///< places of the next batch that such items take
  double carried_cost = 0;    ///< of the votes that these may need
};

/// The row of a label and its class. DataLoss if there is none.
absl::StatusOr<std::pair<RowIndex, ClassIndex>> Locate(const CampaignPlan& plan, const CampaignPool& pool,
                                                       const storage::DecidedLabel& label);

/// The labels of rows of `pool`. Labels of other rows are left out if `whole`, which has grown since, has these rows,
/// or if a stream brought them and they are in no file yet; otherwise they are a DataLoss.
absl::StatusOr<RoundLabels> ReadRoundLabels(const storage::CampaignState& state, const CampaignPlan& plan,
                                            const CampaignPool& pool, const CampaignPool& whole);

}  // namespace fulcrum::pipeline
