// What the processes of `fulcrum select` do together before the round: they agree on the memory, map their shares of
// the pool, and use what the root chooses. With one process each of these is what that process does alone.
//
// Every process makes the same calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/commands/select/select_options.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/core/communicator.h"

namespace fulcrum::pipeline {

/// The options with the smallest memory of all processes: it decides whether the pool is mapped and which engines are
/// used, which must not differ between machines, nor depend on how many processes there are. Those that share a machine
/// also share its memory, unless --memory says what each may take.
absl::StatusOr<SelectOptions> AgreeOnMemory(const SelectOptions& options, const Communicator& peers);

/// The share of this process of an imported pool that is large compared with the memory; nothing if the pool is to be
/// read.
absl::StatusOr<std::optional<MappedSource>> MapPool(const SelectOptions& options, const Communicator& peers);

/// DataLoss on those whose fingerprint ("pool-labels") is not that of the root.
absl::Status CheckSameInputs(const Communicator& peers, const std::string& fingerprint);

/// The root chooses; the other ranks learn what they need of it.
absl::StatusOr<std::shared_ptr<const TunedSettings>> ChooseTogether(
    const Communicator& peers, const std::function<absl::StatusOr<std::shared_ptr<const TunedSettings>>()>& choose);

/// For an imported pool of which this process has a share: rows of others are read from the files. The pool must
/// outlive it.
std::unique_ptr<FeatureSource> SourceOfWholePool(const storage::MappedPool& pool);

/// Drops the features of other processes. InvalidArgument if they are sparse.
absl::Status KeepShare(SelectInputs& inputs);

}  // namespace fulcrum::pipeline
