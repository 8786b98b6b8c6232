// The tables that `fulcrum select` writes, as CSV text.
#pragma once

#include <string>

#include "pipeline/commands/select_inputs.h"
#include "pipeline/round.h"

namespace fulcrum::pipeline {

/// The predicted class of a row, or its label where nothing was predicted; kUnlabeled where neither is known.
ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row);

/// rank,id,class,leverage,gain
std::string BatchTable(const SelectInputs& inputs, const RoundResult& result);

/// id,class,labeled,leverage. The leverage is empty where the strategy uses none, the class where none is known.
std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result);

}  // namespace fulcrum::pipeline
