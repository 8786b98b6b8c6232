// The exact settings, data and versions behind a report, so that someone else can get the same page.
#pragma once

#include <string>

#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {

std::string SettingsSection(const ExperimentSpec& spec, const ExperimentOptions& options,
                            const ExperimentResult& result);

}  // namespace fulcrum::pipeline
