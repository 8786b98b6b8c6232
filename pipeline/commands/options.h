// Checks that options of several commands share.
#pragma once

#include <cstdint>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/client/server_connection.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {

/// A number without sign or fraction that fits 64 bits. CLI11 alone would turn -3 into a very large one.
CLI::Validator WholeNumber();

/// Bytes from "512MiB", "2GiB", "2G", "1048576"; powers of 1024. InvalidArgument for other text, and for none at all.
absl::StatusOr<std::int64_t> ParseByteSize(absl::string_view text);

// The option --memory of commands that read files: what the process may use in all.

/// --memory; `memory`, which must outlive the parsing, is the default.
void AddMemoryOption(CLI::App& app, std::string& memory, const std::string& group = "");

/// Limits for what a command reads: --memory without what the program itself takes. InvalidArgument if `memory` is not
/// a size.
absl::StatusOr<ingest::InputLimits> LimitsOf(const std::string& memory);

/// A ResourceExhausted status with the advice to allow more; others unchanged.
absl::Status WithMemoryAdvice(const absl::Status& status, const std::string& memory);

// Options about the columns of tables, which several commands share.

/// --id, --label, --cost, --payload and --features; the values go to `columns`, which must outlive the parsing.
void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns);

// The options by which every client command finds its server and shows who it is.

/// --server, --token-file, --tls-ca, --tls-cert, --tls-key. `options` must live as long as the app.
void AddConnectionOptions(CLI::App& app, ConnectionOptions& options);

}  // namespace fulcrum::pipeline
