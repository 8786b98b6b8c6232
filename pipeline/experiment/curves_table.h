// curves.csv: every point of every curve.
#pragma once

#include <string>

#include "pipeline/experiment/curve_set.h"

namespace fulcrum::pipeline {

/// task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds. The share
/// of the positive class among the queries so far is empty before the first query.
std::string CurvesTable(const CurveSet& curves);

}  // namespace fulcrum::pipeline
