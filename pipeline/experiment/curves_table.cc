#include "pipeline/experiment/curves_table.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::pipeline {
namespace {

void AppendField(double value, std::string& text) {
  text.push_back(',');
  if (!std::isnan(value)) ingest::AppendNumber(value, text);
}

void AppendPoint(const CurvePoint& point, std::string& text) {
  absl::StrAppend(&text, ",", point.round, ",", point.labels);
  AppendField(point.accuracy, text);
  AppendField(point.f1, text);
  AppendField(point.queried_positive_share, text);
  absl::StrAppendFormat(&text, ",%.6f,%.6f,%.6f\n", point.train_seconds, point.predict_seconds, point.select_seconds);
}

}  // namespace

std::string CurvesTable(const CurveSet& curves) {
  std::string text =
      "task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds\n";
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
