// One round of a campaign: from the label log to a model, a verdict on going on, and a batch that is committed.
//
// Keeps what makes the next round cheap. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/campaign_pool.h"
#include "pipeline/campaign/event_hub.h"
#include "pipeline/round.h"
#include "storage/campaign_reader.h"
#include "storage/campaign_store.h"

namespace fulcrum::pipeline {

class CampaignRound {
 public:
  /// All of them must outlive it.
  CampaignRound(const CampaignPlan& plan, const CampaignPool& pool, storage::CampaignStore& store,
                storage::CampaignReader& reader, EventHub& events);

  /// How long a round took that ended with a batch.
  struct Times {
    double seconds = 0;  ///< from reading the log to the committed batch
    bool warm = false;   ///< something of the round before was of use
    std::vector<StageSeconds> stages = {};
  };
  struct Outcome {
    std::optional<std::string> over = {};  ///< why the campaign ends; otherwise a batch was committed
    std::optional<double> accuracy = {};
    std::optional<Times> times = {};  ///< where a batch was committed
  };
  /// Runs round `number` on the log as it is now. Everything it decides is a function of the log up to a sequence
  /// that is stored with the batch, so a round that was cut short is simply run again.
  absl::StatusOr<Outcome> Run(std::int64_t number, std::stop_token stop);

 private:
  struct Labels {
    std::vector<ClassIndex> of_rows = {};
    RowList barred = {};
    std::int64_t count = 0;
    std::size_t classes = 0;  ///< with at least one label
  };
  absl::StatusOr<Labels> ReadLabels(std::int64_t sequence);
  /// The runner for this round. There is only ever one: each may hold kernel matrices as large as the pool squared.
  RoundRunner& RunnerFor(std::int64_t number, bool trainable);
  absl::StatusOr<RoundResult> Select(std::int64_t number, const Labels& labels, std::stop_token stop);
  absl::Status StoreModel(std::int64_t number, std::int64_t sequence, const RoundResult& result);
  absl::Status CommitBatch(std::int64_t number, std::int64_t sequence, const Labels& labels, const RoundResult& result,
                           double seconds);
  /// Counts rounds in which predictions hardly changed; returns the share that did.
  double NoteChanges(const RoundResult& result);
  void Announce(std::int64_t number, const Labels& labels, const RoundResult& result, double changed_share,
                std::optional<double> accuracy);

  const CampaignPlan& plan_;
  const CampaignPool& pool_;
  storage::CampaignStore& store_;
  storage::CampaignReader& reader_;
  EventHub& events_;
  std::unique_ptr<RoundRunner> runner_;
  bool runner_trains_ = false;  // not before two classes have labels
  std::vector<ClassIndex> last_predicted_;
  std::int64_t stable_rounds_ = 0;
};

}  // namespace fulcrum::pipeline
