// The content of a pool folder: its files, how many rows they have, and the checksum of every block.
//
// The manifest is a small text file and the only thing that makes a folder a pool: it is replaced by a rename after
// everything that it names is on disk. Other files are left over from an import that did not finish. Its last line is a
// checksum of the others. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/files.h"

namespace fulcrum::storage {

inline constexpr char kPoolManifestName[] = "manifest";

struct PoolBlockRecord {
  std::int64_t rows = 0;
  std::uint64_t checksum = 0;
};

/// An Arrow IPC file of the pool.
struct PoolPart {
  std::string file;
  std::int64_t bytes = 0;
  std::vector<PoolBlockRecord> blocks;

  std::int64_t rows() const;
};

struct PoolManifest {
  std::int64_t features = 0;
  bool sparse = false;
  bool has_ids = false;
  std::int64_t rejected = 0;  ///< rows set aside by all imports
  std::string statistics_file;
  std::vector<std::string> rejected_files;  ///< one per import that set rows aside
  std::vector<PoolPart> parts;

  std::int64_t rows() const;
};

std::string FormatManifest(const PoolManifest& manifest);
/// DataLoss for text that was not written by FormatManifest or has changed since.
absl::StatusOr<PoolManifest> ParseManifest(const std::string& text);

/// NotFound if the folder has no manifest: it is not a pool, or its import did not finish.
absl::StatusOr<PoolManifest> ReadManifest(const std::string& folder);
/// Replaces the manifest.
absl::Status WriteManifest(const std::string& folder, const PoolManifest& manifest);

/// Whether a path is the folder of an imported pool.
bool IsPoolFolder(const std::string& path);

// Copies of imported pools, which share the files if the file system allows it.
//
// Files that a manifest names are never changed, so two folders may share them: a pool that grows gets new files.
// Functions for one thread; others may import into the pool at the same time.

/// Creates the folder `to`, which must not exist, as a pool with the rows that `from` has now: by hard links, or by
/// copies if links are not possible. It appears complete or not at all, and OK means that it is on disk.
absl::Status CopyPool(const std::string& from, const std::string& to);

}  // namespace fulcrum::storage
