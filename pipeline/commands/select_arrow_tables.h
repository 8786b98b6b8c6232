// The tables of select_tables.h with types, for outputs whose ending asks for Parquet or Arrow IPC.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/commands/select_inputs.h"
#include "pipeline/round.h"
#include "stages/ingest/table_writer.h"

namespace fulcrum::pipeline {

/// The format that the ending of an output asks for; nothing for CSV, which every other ending means.
std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path);

/// The bytes of a file.
absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format);
absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format);

}  // namespace fulcrum::pipeline
