// An imported pool in a second folder, without reading it where the file system can do without.
//
// What a manifest names is never written to again, so both folders may share the files themselves: a pool that grows
// gets new ones. Functions for one thread; others may import into the pool meanwhile.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace fulcrum::storage {

/// Makes the folder `to`, which must not be there yet, a pool with the rows that `from` has now: by hard links, and by
/// copies where links cannot be made. It appears whole or not at all, and OK means that it is on the disk.
absl::Status CopyPool(const std::string& from, const std::string& to);

}  // namespace fulcrum::storage
