// What a pool folder holds: which files count, how many rows they have, and the checksum of every block.
//
// The manifest is a small text file and the only thing that makes a folder a pool: it is replaced by a rename after
// everything it names is on the disk. What it does not name is left over from an import that did not finish. Its last
// line is a checksum of the others. A plain value.
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
  std::vector<std::string> rejected_files;  ///< one an import that set rows aside
  std::vector<PoolPart> parts;

  std::int64_t rows() const;
};

std::string FormatManifest(const PoolManifest& manifest);
/// DataLoss for text that was not written by FormatManifest or has changed since.
absl::StatusOr<PoolManifest> ParseManifest(const std::string& text);

/// NotFound where the folder has no manifest: it is no pool, or its import did not finish.
absl::StatusOr<PoolManifest> ReadManifest(const std::string& folder);
/// Replaces the manifest.
absl::Status WriteManifest(const std::string& folder, const PoolManifest& manifest);

/// Whether a path is the folder of an imported pool.
bool IsPoolFolder(const std::string& path);

// An imported pool in a second folder, without reading it where the file system can do without.
//
// What a manifest names is never written to again, so both folders may share the files themselves: a pool that grows
// gets new ones. Functions for one thread; others may import into the pool meanwhile.

/// Makes the folder `to`, which must not be there yet, a pool with the rows that `from` has now: by hard links, and by
/// copies where links cannot be made. It appears whole or not at all, and OK means that it is on the disk.
absl::Status CopyPool(const std::string& from, const std::string& to);

}  // namespace fulcrum::storage
