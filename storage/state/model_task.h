// The task of a round that waits for the predictions of a model process: who has it, until when, and what came of it.
//
// A campaign has at most one: that of the next round, or the last one. It changes by its transitions only, one per kind
// of event; DataLoss if the event cannot have happened. A plain value.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/log/event.h"

namespace fulcrum::storage {

struct ModelTask {
  std::int64_t id = 0;  ///< sequence of the event that opened it
  std::int64_t round = 0;
  std::int64_t rows = 0;  ///< to predict
  Time since = {};        ///< when it was opened, or the campaign was resumed after that

  std::int64_t epoch = 0;    ///< of the latest lease; only grows
  std::int64_t lease = 0;    ///< the live lease, or 0
  std::string process = {};  ///< that has the lease, or that returned the predictions
  Time expires_at = {};      ///< of the live lease

  std::string file = {};  ///< the predictions, relative to the campaign's folder; empty: none yet
  std::string checksum = {};
  std::string closed = {};  ///< why the round does without predictions; empty: it does not

  bool operator==(const ModelTask&) const = default;
  bool answered() const { return !file.empty(); }
  /// The round waits for it.
  bool open() const { return file.empty() && closed.empty(); }

  absl::Status Grant(const ModelLeaseGranted& granted, std::int64_t sequence, const std::string& by);
  absl::Status Renew(const ModelLeaseRenewed& renewed);
  absl::Status EndLease(const ModelLeaseEnded& ended);
  absl::Status Answer(const PredictionsStored& stored, const std::string& by);
  absl::Status Close(const ModelTaskClosed& closed_task);
  /// Time that does not count has passed.
  void Shift(std::chrono::microseconds gap);
  /// It waits from now on.
  void Restart(Time now);
};

/// As a checkpoint stores it.
std::string ModelTaskText(const ModelTask& task);
absl::StatusOr<ModelTask> ParseModelTask(const std::string& text);

}  // namespace fulcrum::storage
