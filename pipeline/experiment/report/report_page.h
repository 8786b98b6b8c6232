// report.html: one self-contained page with all results of an experiment. A pure function.
#pragma once

#include <string>

#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {

std::string ReportPage(const ExperimentSpec& spec, const ExperimentOptions& options, const ExperimentResult& result);

}  // namespace fulcrum::pipeline
