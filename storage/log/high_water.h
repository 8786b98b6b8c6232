// The last event that a campaign's log is known to have held, in a file next to the database.
//
// It is written after every commit and synced whenever the store has time, so it never claims more than was committed.
// A log that ends before it, or has another event there, has lost committed events. Used by one thread at a time.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/log/event_log.h"

namespace fulcrum::storage {

class HighWaterFile {
 public:
  /// Opens the file for writing; it is created if it does not exist.
  static absl::StatusOr<HighWaterFile> Open(const std::string& path);
  /// The content of the file; nothing if there is no file. DataLoss if it is damaged.
  static absl::StatusOr<std::optional<LogPosition>> Read(const std::string& path);

  HighWaterFile(HighWaterFile&& other) noexcept;
  HighWaterFile& operator=(HighWaterFile&&) = delete;
  ~HighWaterFile();

  /// Replaces the record. A killed process does not lose it; a power failure may, until Sync.
  absl::Status Record(const LogPosition& position);
  absl::Status Sync();

 private:
  HighWaterFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  bool synced_ = true;
};

/// OK if the log holds the event that the file knows of; DataLoss with the number of missing events otherwise.
absl::Status CheckHighWater(EventLog& log, const std::optional<LogPosition>& known);

}  // namespace fulcrum::storage
