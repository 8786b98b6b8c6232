// What a campaign could be created from: the files in the folder of pools, and the beginning of one of them with the
// roles of its columns and warnings.
//
// Functions of the file system; thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/pool_service.pb.h"
#include "pipeline/campaign/pool/upload_store.h"

namespace fulcrum::pipeline {

/// A page of the entries of a folder inside `root`. InvalidArgument for a folder outside of it.
absl::StatusOr<v1::ListPoolFilesResponse> ListPoolFiles(const std::string& root,
                                                        const v1::ListPoolFilesRequest& request, std::size_t page_size);

/// Reads up to 20,000 rows. `memory_bytes` is what a round may use, for the choice of the engine.
absl::StatusOr<v1::GetPoolPreviewResponse> PreviewPool(const PoolPlaces& places, std::size_t memory_bytes,
                                                       const v1::GetPoolPreviewRequest& request);

}  // namespace fulcrum::pipeline
