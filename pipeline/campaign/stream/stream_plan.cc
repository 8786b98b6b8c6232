#include <algorithm>

#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/campaign_plan.h"

namespace fulcrum::pipeline {
namespace {

constexpr double kDefaultKeepShare = 0.1;
constexpr double kDefaultPeriod = 3600;
constexpr double kShortestPeriod = 1e-3;

}  // namespace

StreamPlan PlanStream(const v1::StreamSpec& spec,
                      const std::function<void(const std::string& path, const std::string& what)>& problem) {
  StreamPlan plan;
  plan.options.budget.share = spec.share();
  if (spec.has_labels()) {
    double seconds = kDefaultPeriod;
    if (spec.has_period()) {
      seconds = static_cast<double>(spec.period().seconds()) + 1e-9 * static_cast<double>(spec.period().nanos());
    }
    plan.options.budget.per_second = spec.labels() / std::max(seconds, kShortestPeriod);
  }
  if (spec.has_share() == spec.has_labels()) {
    problem("selection.stream", "needs a budget: either 'share', of the rows, or 'labels' and a 'period'");
  } else if (spec.has_period() && !spec.has_labels()) {
    problem("selection.stream.period", "is the time of 'labels'; leave it out with 'share'");
  }
  if (spec.has_novelty()) plan.options.novelty_weight = spec.novelty();
  if (spec.has_drift_window()) {
    plan.options.drift.window = static_cast<std::size_t>(std::max(spec.drift_window(), 1));
  }
  if (spec.has_drift_rate()) plan.options.drift.false_alarm_rate = spec.drift_rate();
  if (spec.keep() == v1::StreamSpec::KEEP_ALL) plan.keep_share = 1;
  if (spec.keep() == v1::StreamSpec::KEEP_SAMPLE) {
    plan.keep_share = spec.has_keep_share() ? spec.keep_share() : kDefaultKeepShare;
  } else if (spec.has_keep_share()) {
    problem("selection.stream.keep_share", "needs 'keep: sample'");
  }
  return plan;
}

}  // namespace fulcrum::pipeline
