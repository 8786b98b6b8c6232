// The tables that `fulcrum select` writes, as CSV text.
#pragma once

#include <string>

#include "pipeline/commands/select_inputs.h"
#include "pipeline/round.h"

namespace fulcrum::pipeline {

/// rank,id,class,leverage,gain
std::string BatchTable(const SelectInputs& inputs, const RoundResult& result);

/// id,class,labeled,leverage. The leverage is empty where the strategy uses none, the class where none is known.
std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result);

}  // namespace fulcrum::pipeline
