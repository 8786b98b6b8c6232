// Arrow IPC: files, which end with an index of their batches, and streams, which have none and may be compressed.
//
// As hostile as Parquet, and treated so: limits, every batch checked in full, errors that name the file and the batch.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

/// A file or a stream, recognised by how it begins.
absl::StatusOr<std::unique_ptr<TableSource>> OpenIpc(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest
