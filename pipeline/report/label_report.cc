#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pipeline/report/reports.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/campaign_reader.h"
#include "storage/clock.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMostPeriods = 60;
constexpr std::size_t kMostAnnotators = 200;
constexpr std::size_t kMostCurves = 8;
constexpr std::int64_t kMostRounds = 100;
constexpr std::size_t kBins = 10;
constexpr std::size_t kMostReports = 16;
constexpr std::chrono::milliseconds kQuick{100};

/// A label that counts.
struct Given {
  std::int64_t micros = 0;
  std::size_t value = 0;  ///< number of the class
  std::string annotator = {};
  std::string item = {};
  bool agrees = false;  ///< with the decision; false without one
  bool decided = false;
};

struct Gathered {
  std::vector<Given> labels = {};
  std::map<std::string, v1::AnnotatorLabels> annotators = {};
  std::unordered_map<std::string, std::string> decisions = {};         ///< by item
  std::unordered_map<std::string, std::pair<int, double>> votes = {};  ///< number and agreement, by item
};

absl::StatusOr<Gathered> Gather(const Campaign& campaign, const std::vector<std::string>& classes) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(campaign.folder()));
  Gathered gathered;
  FULCRUM_RETURN_IF_ERROR(storage::VisitLabels(*reader, [&](const storage::ExportedLabel& label) {
    const storage::EventRow& event = label.event;
    v1::AnnotatorLabels& annotator = gathered.annotators[event.annotator];
    const bool first = event.kind == storage::EventKind::kLabelSubmitted;
    const bool imported = event.kind == storage::EventKind::kLabelImported;
    if (event.kind == storage::EventKind::kLabelChanged || event.kind == storage::EventKind::kLabelWithdrawn) {
      annotator.set_changed(annotator.changed() + 1);
    }
    if (!label.decision.empty()) gathered.decisions[event.item] = label.decision;
    const auto found = std::find(classes.begin(), classes.end(), event.value);
    if (!label.counts || found == classes.end()) return absl::OkStatus();
    *annotator.mutable_last_at() = TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
    annotator.set_labels(annotator.labels() + 1);
    const bool vote = first || event.kind == storage::EventKind::kLabelChanged;
    if (vote && !imported && label.agreement) {
      auto& [count, agreement] = gathered.votes[event.item];
      ++count;
      agreement = *label.agreement;
    }
    gathered.labels.push_back({.micros = storage::ToMicros(event.at),
                               .value = static_cast<std::size_t>(found - classes.begin()),
                               .annotator = event.annotator,
                               .item = event.item,
                               .agrees = label.decision == event.value,
                               .decided = vote && !label.decision.empty()});
    return absl::OkStatus();
  }));
  return gathered;
}

void AddAnnotators(Gathered& gathered, v1::GetLabelReportResponse& report) {
  for (const Given& label : gathered.labels) {
    const auto votes = gathered.votes.find(label.item);
    if (!label.decided || votes == gathered.votes.end() || votes->second.first < 2) continue;
    v1::AnnotatorLabels& annotator = gathered.annotators[label.annotator];
    annotator.set_compared(annotator.compared() + 1);
    annotator.set_agreeing(annotator.agreeing() + (label.agrees ? 1 : 0));
  }
  std::vector<v1::AnnotatorLabels> sorted;
  for (auto& [name, annotator] : gathered.annotators) {
    annotator.set_annotator(name);
    if (annotator.labels() + annotator.changed() > 0) sorted.push_back(annotator);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.labels() > b.labels(); });
  if (sorted.size() > kMostAnnotators) sorted.resize(kMostAnnotators);
  for (v1::AnnotatorLabels& annotator : sorted) *report.add_annotators() = std::move(annotator);
}

void AddAgreement(const Gathered& gathered, v1::GetLabelReportResponse& report) {
  double sum = 0;
  std::int64_t shared = 0;
  for (const auto& [item, votes] : gathered.votes) {
    if (votes.first < 2) continue;
    sum += votes.second;
    ++shared;
  }
  report.set_shared_items(shared);
  if (shared > 0) report.set_agreement(sum / static_cast<double>(shared));
}

void AddPeriods(const Gathered& gathered, std::size_t class_count, v1::GetLabelReportResponse& report) {
  if (gathered.labels.empty()) return;
  const auto by_time = [](const Given& a, const Given& b) { return a.micros < b.micros; };
  const auto [first, last] = std::minmax_element(gathered.labels.begin(), gathered.labels.end(), by_time);
  const std::size_t periods = std::min(kMostPeriods, gathered.labels.size());
  const std::int64_t length =
      std::max<std::int64_t>(1, (last->micros - first->micros) / static_cast<std::int64_t>(periods) + 1);
  const std::size_t curves = std::min(kMostCurves, static_cast<std::size_t>(report.annotators_size()));
  std::unordered_map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < curves; ++i) numbers[report.annotators(static_cast<int>(i)).annotator()] = i;
  std::vector<std::vector<std::int64_t>> classes(periods, std::vector<std::int64_t>(class_count, 0));
  std::vector<std::vector<std::int64_t>> annotators(periods, std::vector<std::int64_t>(curves, 0));
  for (const Given& label : gathered.labels) {
    const auto period = std::min(periods - 1, static_cast<std::size_t>((label.micros - first->micros) / length));
    ++classes[period][label.value];
    if (const auto found = numbers.find(label.annotator); found != numbers.end()) ++annotators[period][found->second];
  }
  std::vector<std::int64_t> class_sums(class_count, 0), annotator_sums(curves, 0);
  for (std::size_t period = 0; period < periods; ++period) {
    v1::LabelPeriod& added = *report.add_periods();
    const std::int64_t end = first->micros + length * static_cast<std::int64_t>(period + 1);
    *added.mutable_end() = TimeUtil::MicrosecondsToTimestamp(std::min(end, last->micros));
    for (std::size_t i = 0; i < class_count; ++i) added.add_classes(class_sums[i] += classes[period][i]);
    for (std::size_t i = 0; i < curves; ++i) added.add_annotators(annotator_sums[i] += annotators[period][i]);
  }
}

void AddCalibration(const Campaign& campaign, const storage::CampaignFolder& folder, const Gathered& gathered,
                    v1::GetLabelReportResponse& report) {
  struct Bin {
    double certainty = 0;
    std::int64_t items = 0, correct = 0;
  };
  std::array<Bin, kBins> bins;
  const std::int64_t last = campaign.Describe().round();
  for (std::int64_t round = std::max<std::int64_t>(1, last - kMostRounds + 1); round <= last; ++round) {
    const auto batch = storage::ReadRoundBatch(folder, round);
    // Records of older versions have no certainty, and one that is damaged is reported when its item is read.
    if (!batch.ok() || batch->uncertainty.size() != batch->items.size()) continue;
    for (std::size_t i = 0; i < batch->items.size(); ++i) {
      const auto decision = gathered.decisions.find(batch->items[i]);
      if (decision == gathered.decisions.end() || batch->uncertainty[i] < 0) continue;
      const double certainty = 1 - batch->uncertainty[i];
      Bin& bin = bins[std::min(kBins - 1, static_cast<std::size_t>(certainty * kBins))];
      bin.certainty += certainty;
      ++bin.items;
      bin.correct += decision->second == batch->predicted[i] ? 1 : 0;
    }
  }
  for (const Bin& bin : bins) {
    if (bin.items == 0) continue;
    v1::CalibrationBin& added = *report.add_calibration();
    added.set_certainty(bin.certainty / static_cast<double>(bin.items));
    added.set_items(bin.items);
    added.set_correct(bin.correct);
  }
}

}  // namespace

absl::StatusOr<v1::GetLabelReportResponse> ReportLabels(Campaign& campaign) {
  const std::vector<std::string> classes = campaign.plan()->classes;
  v1::GetLabelReportResponse report;
  report.set_sequence(campaign.store().status()->last_sequence);
  FULCRUM_ASSIGN_OR_RETURN(Gathered gathered, Gather(campaign, classes));
  std::vector<std::int64_t> counts(classes.size(), 0);
  for (const Given& label : gathered.labels) ++counts[label.value];
  for (std::size_t i = 0; i < classes.size(); ++i) {
    v1::ClassLabels& added = *report.add_classes();
    added.set_value(classes[i]);
    added.set_labels(counts[i]);
  }
  report.set_labels(static_cast<std::int64_t>(gathered.labels.size()));
  AddAnnotators(gathered, report);
  AddAgreement(gathered, report);
  AddPeriods(gathered, classes.size(), report);
  AddCalibration(campaign, campaign.store().folder(), gathered, report);
  return report;
}

absl::StatusOr<v1::GetLabelReportResponse> LabelReports::Get(Campaign& campaign) {
  const std::shared_ptr<Entry> entry = [&] {
    const std::scoped_lock lock(mutex_);
    if (last_.size() > kMostReports) last_.clear();
    std::shared_ptr<Entry>& found = last_[campaign.name()];
    if (found == nullptr) found = std::make_shared<Entry>();
    return found;
  }();
  // Who asks meanwhile waits for the same report.
  const std::scoped_lock lock(entry->mutex);
  const std::shared_ptr<const CampaignPool> pool = campaign.pool();
  const bool same = entry->report != nullptr && entry->pool.lock() == pool;
  const bool current = same && entry->report->sequence() == campaign.store().status()->last_sequence;
  if (current || (same && Clock::now() < entry->fresh_until)) return *entry->report;
  const Clock::time_point begun = Clock::now();
  FULCRUM_ASSIGN_OR_RETURN(v1::GetLabelReportResponse report, ReportLabels(campaign));
  const Clock::duration took = Clock::now() - begun;
  entry->report = std::make_shared<const v1::GetLabelReportResponse>(std::move(report));
  entry->pool = pool;
  entry->fresh_until = took < kQuick ? begun : Clock::now() + 10 * took;
  return *entry->report;
}

}  // namespace fulcrum::pipeline
