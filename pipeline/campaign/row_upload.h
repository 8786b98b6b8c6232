// Rows on their way into a campaign's pool: the bytes that a client sends, gathered in a file.
//
// A campaign has one at a time, so that what a daemon leaves behind when it is killed is replaced by the next. Used by
// one thread at a time; the file goes with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checksum.h"

namespace fulcrum::pipeline {

class RowUpload {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

  /// Aborted where `busy` says that there is one already; it says so from now on, until this one goes.
  static absl::StatusOr<std::unique_ptr<RowUpload>> Begin(const std::string& folder,
                                                          std::shared_ptr<std::atomic<bool>> busy);
  ~RowUpload();
  RowUpload(const RowUpload&) = delete;
  RowUpload& operator=(const RowUpload&) = delete;

  /// ResourceExhausted for more than kMostBytes in all.
  absl::Status Add(absl::string_view bytes);
  /// Says that no more will come. Unavailable where the disk did not take it all.
  absl::Status Finish();

  const std::string& file() const { return file_; }
  /// Of what was added.
  std::string checksum() const { return checksum_.ToText(); }

 private:
  RowUpload(std::string file, std::shared_ptr<std::atomic<bool>> busy);
  absl::Status CheckDisk() const;

  const std::string file_;
  const std::shared_ptr<std::atomic<bool>> busy_;
  std::ofstream stream_;
  std::int64_t bytes_ = 0;
  storage::Checksum checksum_;
};

}  // namespace fulcrum::pipeline
