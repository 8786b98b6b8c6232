// The processes that mpirun started, as a Communicator.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "stages/core/communicator.h"

namespace fulcrum::pipeline {

/// Whether this build has MPI (the CMake option FULCRUM_MPI).
bool HasMpi();

/// How many processes a launcher (mpirun, srun) started this one among, from its environment; 1 if there is none.
int LaunchedProcesses();

/// Which of them this one is, from 0.
int LaunchedRank();

/// Calls `work` with all processes of the launcher, or with OneProcess() if there is only this one.
///
/// The processes end together. An error that they agree on (AgreeOn) is returned at the root alone, and the others
/// return OK. If one fails by itself, for example out of memory, it prints a message with its rank and host, and ends
/// all others with `exit_code` of the error. FailedPrecondition if there are several processes and this build has no
/// MPI, if MPI does not know of the others, or if their builds differ. Call it once, from the main thread.
absl::Status RunInProcesses(const std::string& command, int (*exit_code)(const absl::Status&),
                            const std::function<absl::Status(const Communicator& peers)>& work);

}  // namespace fulcrum::pipeline
