#include "pipeline/campaign/row_upload.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

RowUpload::RowUpload(std::string file, std::shared_ptr<std::atomic<bool>> busy)
    : file_(std::move(file)), busy_(std::move(busy)), stream_(file_, std::ios::binary | std::ios::trunc) {}

RowUpload::~RowUpload() {
  stream_.close();
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
  *busy_ = false;
}

absl::StatusOr<std::unique_ptr<RowUpload>> RowUpload::Begin(const std::string& folder,
                                                            std::shared_ptr<std::atomic<bool>> busy) {
  if (busy->exchange(true)) {
    return absl::AbortedError("other rows are being appended to this campaign; try again when that is done");
  }
  std::unique_ptr<RowUpload> upload(new RowUpload(folder + "/incoming.arrow", std::move(busy)));
  FULCRUM_RETURN_IF_ERROR(upload->CheckDisk());
  return upload;
}

absl::Status RowUpload::CheckDisk() const {
  if (stream_) return absl::OkStatus();
  return absl::UnavailableError("the server cannot keep what was sent; is its disk full? Try again later");
}

absl::Status RowUpload::Add(absl::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMostBytes >> 20, " MiB were sent at once; append the rows in several requests"));
  }
  checksum_.Add(bytes);
  stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return CheckDisk();
}

absl::Status RowUpload::Finish() {
  stream_.close();
  return CheckDisk();
}

}  // namespace fulcrum::pipeline
