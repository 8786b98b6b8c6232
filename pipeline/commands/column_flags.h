// Options about the columns of tables, which several commands share.
#pragma once

#include "CLI/App.hpp"
#include "stages/ingest/column_roles.h"

namespace fulcrum::pipeline {

/// --id, --label, --cost, --payload and --features; the values go to `columns`, which must outlive the parsing.
void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns);

}  // namespace fulcrum::pipeline
