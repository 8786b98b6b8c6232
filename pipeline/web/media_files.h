// Images, sounds and videos of the folder of pools, for payloads that name a file.
//
// A file is read in parts of a megabyte, the next one when the client has taken the last, so that a large video costs
// as little memory as a small one and a slow client has time for each part. Players ask for ranges. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "pipeline/server/executor.h"
#include "pipeline/web/web_server.h"

namespace fulcrum::pipeline {

class MediaFiles {
 public:
  explicit MediaFiles(std::string root);

  /// Answers with the file at a path relative to the folder, or the part of it that `range` ("bytes=FIRST-LAST") names.
  /// Each answer gets `headers` besides its own. Refuses what is not a media file inside the folder.
  void Send(const std::string& path, const std::string& range, WebHeaders headers,
            const std::shared_ptr<WebExchange>& exchange);

 private:
  struct Sending;
  void SendNext(const std::shared_ptr<Sending>& sending);

  const std::string root_;
  const std::shared_ptr<std::atomic<int>> open_;  ///< files that are being sent
  Executor reader_;                               // last: its thread uses all of the above
};

}  // namespace fulcrum::pipeline
