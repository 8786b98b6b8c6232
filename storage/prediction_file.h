// The file with the class probabilities that a model process returned for the rows of a pool.
//
//   32-bit floats, little-endian, row after row, one per class
//   64 bytes of text at the end: "fulcrum predictions 1 ROWS CLASSES", filled up with spaces and a line feed
//
// Written completely and synced before the log mentions it. The size is known at the end only, so that rows are written
// as they arrive. A writer is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/files.h"
#include "storage/campaign_folder.h"

namespace fulcrum::storage {

class PredictionFileWriter {
 public:
  /// Begins a file of its own for predictions under a lease.
  static absl::StatusOr<PredictionFileWriter> Create(const CampaignFolder& folder, std::int64_t round,
                                                     std::int64_t lease, std::size_t classes);
  /// Writes no file: finds out only what the checksum of one would be.
  explicit PredictionFileWriter(std::size_t classes) : classes_(classes) {}

  /// Whole rows.
  absl::Status Add(std::span<const float> probabilities);
  std::int64_t rows() const { return static_cast<std::int64_t>(numbers_ / classes_); }
  /// Durable, under its name, when it returns OK.
  absl::Status Finish();
  /// Removes the file, which the log does not mention.
  void Discard();

  /// Relative to the campaign's folder; empty if no file is written.
  const std::string& name() const { return name_; }
  /// After Finish.
  std::string checksum() const { return checksum_.ToText(); }

 private:
  std::size_t classes_;
  std::size_t numbers_ = 0;
  std::string name_;
  Checksum checksum_;
  std::optional<AtomicFile> file_;
};

struct StoredPredictions {
  std::size_t rows = 0;
  std::size_t classes = 0;
  std::vector<float> probabilities = {};  ///< row after row

  std::span<const float> row(std::size_t index) const {
    return std::span(probabilities).subspan(index * classes, classes);
  }
};

/// NotFound or DataLoss if the file is not what was recorded.
absl::StatusOr<StoredPredictions> ReadPredictionFile(const CampaignFolder& folder, const std::string& name,
                                                     const std::string& checksum);

}  // namespace fulcrum::storage
