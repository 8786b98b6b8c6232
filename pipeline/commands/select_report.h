// What `fulcrum select` tells beside the batch: the JSON report and the notes for people.
#pragma once

#include <string>
#include <vector>

#include "pipeline/commands/select_inputs.h"
#include "pipeline/commands/select_options.h"
#include "pipeline/commands/stage_clock.h"
#include "pipeline/round.h"

namespace fulcrum::pipeline {

/// What the user should know about this batch, the notes on the data first.
std::vector<std::string> CollectNotes(const SelectOptions& options, const SelectInputs& inputs,
                                      const RoundResult& result);

/// The report, as the help text of the command describes it.
std::string ReportText(const SelectOptions& options, const SelectInputs& inputs, const RoundResult& result,
                       const std::vector<std::string>& notes, const StageClock& clock);

}  // namespace fulcrum::pipeline
