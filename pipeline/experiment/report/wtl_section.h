// The win/tie/loss table of the report: ours with the paper's below, and why some differ.
#pragma once

#include <string>
#include <vector>

#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/win_tie_loss.h"

namespace fulcrum::pipeline {

/// HTML; empty where nothing was compared.
std::string WtlSection(const ExperimentSpec& spec, const std::vector<WtlCell>& cells);

}  // namespace fulcrum::pipeline
