// Ranks that are threads of the test, so that what runs over processes is tested without MPI.
#pragma once

#include <functional>

#include "stages/core/communicator.h"

namespace fulcrum::testing {

/// Calls body(peers) on `ranks` threads, each with its own rank, and returns when all have ended. If one throws, calls
/// of the others throw PeerFailed, and the first exception is rethrown.
void RunOnRanks(int ranks, const std::function<void(const Communicator& peers)>& body);

}  // namespace fulcrum::testing
