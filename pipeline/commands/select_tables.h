// The tables that `fulcrum select` writes, as CSV text.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/commands/select_inputs.h"
#include "pipeline/round/round.h"
#include "stages/ingest/formats/table_writer.h"

namespace fulcrum::pipeline {

/// The predicted class of a row, or its label if nothing was predicted; kUnlabeled if neither is known.
ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row);

/// rank,id,class,leverage,gain
std::string BatchTable(const SelectInputs& inputs, const RoundResult& result);

/// id,class,labeled,leverage. The leverage is empty if the strategy uses none, the class if none is known.
std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result);

// The tables of select_tables.h with types, for outputs whose ending asks for Parquet or Arrow IPC.

/// The format that the ending of an output asks for; nothing for CSV, which every other ending means.
std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path);

/// The bytes of a file.
absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format);
absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format);

}  // namespace fulcrum::pipeline
