#include "pipeline/experiment/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/core/number_text.h"

namespace fulcrum::pipeline {
namespace {

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

std::string MetricName(Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return "accuracy";
    case Metric::kF1:
      return "F1";
    case Metric::kMacroF1:
      return "macro-F1";
    case Metric::kLabelAccuracy:
      return "accuracy of the labels";
  }
  return "";
}

double AreaUnder(const Curve& curve, std::size_t last_round, Metric metric) {
  if (last_round == 0) return ValueOf(curve.points[0], metric);
  double area = 0;
  for (std::size_t round = 0; round < last_round; ++round) {
    area += (ValueOf(curve.points[round], metric) + ValueOf(curve.points[round + 1], metric)) / 2;
  }
  return area / static_cast<double>(last_round);
}

std::vector<const Curve*> CurveSet::Of(const std::string& task, const std::string& strategy) const {
  std::vector<const Curve*> found;
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy == strategy) found.push_back(&curve);
  }
  std::ranges::sort(found, {}, [](const Curve* curve) { return curve->run; });
  return found;
}

std::vector<std::string> CurveSet::Tasks() const {
  std::vector<std::string> names;
  for (const Curve& curve : curves_) AddOnce(curve.task, names);
  return names;
}

std::vector<std::string> CurveSet::StrategiesOf(const std::string& task) const {
  std::vector<std::string> names;
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy != kFullData) AddOnce(curve.strategy, names);
  }
  return names;
}

std::vector<double> CurveSet::ValuesAt(const std::string& task, const std::string& strategy, std::size_t round,
                                       Metric metric) const {
  std::vector<double> values;
  for (const Curve* curve : Of(task, strategy)) {
    if (round < curve->points.size()) values.push_back(ValueOf(curve->points[round], metric));
  }
  return values;
}

double CurveSet::FullDataMean(const std::string& task, Metric metric) const {
  const std::vector<double> values = ValuesAt(task, kFullData, 0, metric);
  if (values.empty()) return std::nan("");
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::size_t CurveSet::LastRound(const std::string& task) const {
  std::size_t last = std::numeric_limits<std::size_t>::max();
  for (const Curve& curve : curves_) {
    if (curve.task == task && curve.strategy != kFullData && !curve.points.empty()) {
      last = std::min(last, curve.points.size() - 1);
    }
  }
  return last == std::numeric_limits<std::size_t>::max() ? 0 : last;
}

namespace {

void AppendField(double value, std::string& text) {
  text.push_back(',');
  if (!std::isnan(value)) AppendNumber(value, text);
}

void AppendPoint(const CurvePoint& point, std::string& text) {
  absl::StrAppend(&text, ",", point.round, ",", point.labels);
  AppendField(point.accuracy, text);
  AppendField(point.f1, text);
  AppendField(point.queried_positive_share, text);
  absl::StrAppendFormat(&text, ",%.6f,%.6f,%.6f", point.train_seconds, point.predict_seconds, point.select_seconds);
  AppendField(point.macro_f1, text);
  AppendField(point.calibration_error, text);
  AppendField(point.label_accuracy, text);
  AppendField(point.paused_spammers, text);
  AppendField(point.paused_others, text);
  AppendField(point.cost, text);
  text.push_back('\n');
}

}  // namespace

std::string CurvesTable(const CurveSet& curves) {
  std::string text =
      "task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds,"
      "macro_f1,calibration_error,label_accuracy,paused_spammers,paused_others,cost\n";
  for (const Curve& curve : curves.all()) {
    const std::string names = absl::StrCat(curve.task, ",", curve.strategy, ",", curve.run);
    for (const CurvePoint& point : curve.points) {
      text.append(names);
      AppendPoint(point, text);
    }
  }
  return text;
}

}  // namespace fulcrum::pipeline
