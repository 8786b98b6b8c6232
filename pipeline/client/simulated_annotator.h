// An annotator that knows the answers from a file and imitates people: sometimes wrong, slow, unsure, or gone.
//
// What it answers about an example depends on the seed, the annotator's name and the example's alone, so a task that
// comes a second time, to this worker or to a restarted one, gets the same answer. Whether it skips or crashes depends
// on the lease, so that a restarted worker does not crash over the same task for ever. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pipeline/client/retry.h"
#include "pipeline/client/terminal_annotator.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {

/// The right answers: label by item id.
using Oracle = absl::flat_hash_map<std::string, std::string>;

/// From a label file (id,label), or a pool with a label column.
absl::StatusOr<Oracle> LoadOracle(const std::string& path, const ingest::InputLimits& limits = {});

struct ImitationOptions {
  double accuracy = 1;    ///< share of right answers; wrong ones are uniform over the other classes
  double skip_rate = 0;   ///< share of tasks skipped as unsure
  double crash_rate = 0;  ///< share of tasks over which the worker dies
  std::chrono::milliseconds delay{0};
  std::uint64_t seed = 1;
  std::string annotator = {};  ///< two annotators err about different examples
  /// Told what the campaign waits for when there is nothing to do and that has changed; may be null.
  std::function<void(const std::string&)> on_idle = {};
};

class SimulatedAnnotator final : public Annotator {
 public:
  SimulatedAnnotator(Oracle oracle, ImitationOptions options, Timing timing);

  /// FailedPrecondition if the file has an answer that is none of the classes. Skips what the file does not have.
  absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) override;
  void OnIdle(const std::vector<std::string>& waiting_for) override;
  HoldBack hold_back() const override;

 private:
  /// False when it should quit.
  bool Think(const KeepAlive& keep_alive) const;
  absl::StatusOr<Decision> Answer(const WorkTask& task, const std::string& right) const;

  const Oracle oracle_;
  const ImitationOptions options_;
  const std::uint64_t seed_;
  const Timing timing_;
  std::string told_;
};

}  // namespace fulcrum::pipeline
