#include "pipeline/operation/daemon_figures.h"

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/operation/metric_families.h"

namespace fulcrum::pipeline {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

struct StateName {
  v1::CampaignState state;
  const char* name;
};

constexpr std::array kStates = {
    StateName{v1::CAMPAIGN_STATE_CREATED, "created"}, StateName{v1::CAMPAIGN_STATE_RUNNING, "running"},
    StateName{v1::CAMPAIGN_STATE_WAITING, "waiting"}, StateName{v1::CAMPAIGN_STATE_PAUSED, "paused"},
    StateName{v1::CAMPAIGN_STATE_DONE, "done"},       StateName{v1::CAMPAIGN_STATE_FAILED, "failed"},
};

/// A figure of every campaign.
struct Figure {
  MetricType type;
  const char* name;
  const char* help;
  double (*of)(const v1::Campaign& campaign);
};

constexpr std::array kFigures = {
    Figure{MetricType::Gauge, "fulcrum_live_leases", "Tasks that workers hold.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.live_leases()); }},
    Figure{MetricType::Gauge, "fulcrum_open_tasks", "Tasks of the current batch that nobody holds.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.open_tasks()); }},
    Figure{MetricType::Counter, "fulcrum_labels_total", "Labels taken from workers since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.labels()); }},
    Figure{MetricType::Counter, "fulcrum_imported_labels_total", "Labels imported since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.imported_labels()); }},
    Figure{MetricType::Counter, "fulcrum_rounds_total", "Batches committed since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.round()); }},
    Figure{MetricType::Gauge, "fulcrum_pool_rows", "Examples in the pool.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.pool_rows()); }},
};

MetricFamily CampaignsByState(const std::vector<v1::Campaign>& campaigns, std::size_t broken) {
  std::map<v1::CampaignState, double> counts;
  for (const v1::Campaign& campaign : campaigns) ++counts[campaign.state()];
  MetricFamily family = MakeFamily(MetricType::Gauge, "fulcrum_campaigns",
                                   "Campaigns by state; 'broken' are those that could not be opened.");
  for (const StateName& state : kStates) AddValue(family, counts[state.state], "state", state.name);
  AddValue(family, static_cast<double>(broken), "state", "broken");
  return family;
}

}  // namespace

std::vector<MetricFamily> DaemonFigures::Collect() const {
  std::vector<v1::Campaign> described;
  MetricFamily queued = MakeFamily(MetricType::Gauge, "fulcrum_commit_queue_depth",
                                   "Operations that wait for the store's writing thread.");
  for (const std::shared_ptr<Campaign>& campaign : campaigns_.List("", std::numeric_limits<std::size_t>::max())) {
    described.push_back(campaign->Describe());
    AddValue(queued, static_cast<double>(campaign->store().queued()), "campaign", campaign->plan().name);
  }
  std::vector<MetricFamily> families = {CampaignsByState(described, campaigns_.broken().size()), std::move(queued)};
  for (const Figure& figure : kFigures) {
    MetricFamily family = MakeFamily(figure.type, figure.name, figure.help);
    for (const v1::Campaign& campaign : described) AddValue(family, figure.of(campaign), "campaign", campaign.name());
    families.push_back(std::move(family));
  }
  AddValue(
      families.emplace_back(MakeFamily(MetricType::Gauge, "fulcrum_call_queue_depth", "Calls that wait for a thread.")),
      static_cast<double>(queues_.calls()));
  AddValue(families.emplace_back(MakeFamily(MetricType::Gauge, "fulcrum_waiting_workers",
                                            "Workers that asked for tasks when there were none, and wait.")),
           static_cast<double>(queues_.workers()));
  return families;
}

}  // namespace fulcrum::pipeline
