#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/web/web_site.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr int kMostOpen = 64;
// One read per open file, and those that are about to be refused.
constexpr std::size_t kMostQueued = 1024;

const std::map<std::string, std::string>& MediaTypes() {
  static const auto* const types = new std::map<std::string, std::string>{
      {"avif", "image/avif"}, {"gif", "image/gif"},  {"jpeg", "image/jpeg"},   {"jpg", "image/jpeg"},
      {"m4a", "audio/mp4"},   {"mp3", "audio/mpeg"}, {"mp4", "video/mp4"},     {"oga", "audio/ogg"},
      {"ogg", "audio/ogg"},   {"png", "image/png"},  {"svg", "image/svg+xml"}, {"wav", "audio/wav"},
      {"webm", "video/webm"}, {"webp", "image/webp"}};
  return *types;
}

struct Media {
  std::string path = {};
  std::string type = {};
  std::size_t size = 0;
};

absl::StatusOr<Media> FindMedia(const std::string& root, const std::string& relative) {
  const std::size_t dot = relative.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : absl::AsciiStrToLower(relative.substr(dot + 1));
  const auto type = MediaTypes().find(ending);
  if (type == MediaTypes().end() || absl::StartsWith(relative, "/")) {
    return absl::NotFoundError("only images, sounds and videos in the folder of pools are served");
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ResolvePoolSources({relative}, root));
  struct stat status {};
  if (stat(paths[0].c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no file '", relative, "' in the folder of pools"));
  }
  return Media{paths[0], type->second, static_cast<std::size_t>(status.st_size)};
}

struct ByteRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// "bytes=FIRST-LAST"; players ask for one range at a time. Nothing if it is not of that form or outside of the file:
/// the whole file is the answer then.
std::optional<ByteRange> ParseRange(absl::string_view text, std::size_t size) {
  if (size == 0 || !absl::ConsumePrefix(&text, "bytes=")) return std::nullopt;
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  std::size_t first = 0, last = size - 1;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first)) return std::nullopt;
  if (!ends[1].empty() && !absl::SimpleAtoi(ends[1], &last)) return std::nullopt;
  if (first >= size || last < first) return std::nullopt;
  return ByteRange{first, std::min(last, size - 1) + 1};
}

}  // namespace

struct MediaFiles::Sending {
  Sending(std::shared_ptr<std::atomic<int>> counter, std::shared_ptr<WebExchange> to)
      : open(std::move(counter)), exchange(std::move(to)) {}
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
  ~Sending() { --*open; }

  const std::shared_ptr<std::atomic<int>> open;
  const std::shared_ptr<WebExchange> exchange;
  std::ifstream file = {};
  std::size_t next = 0, end = 0;
};

MediaFiles::MediaFiles(std::string root)
    : root_(std::move(root)), open_(std::make_shared<std::atomic<int>>(0)), reader_(1, kMostQueued) {}

void MediaFiles::Send(const std::string& path, const std::string& range, WebHeaders headers,
                      const std::shared_ptr<WebExchange>& exchange) {
  const auto refuse = [](WebExchange& to, const absl::Status& status, const WebHeaders& more) {
    to.Reply({.status = HttpStatusOf(status), .body = ErrorJson(status), .headers = more});
  };
  const int open = ++*open_;
  const auto sending = std::make_shared<Sending>(open_, exchange);
  if (open > kMostOpen) return refuse(*exchange, Executor::Busy(), headers);
  const auto begin = [this, sending, path, range, headers, refuse]() mutable {
    const absl::StatusOr<Media> media = FindMedia(root_, path);
    if (!media.ok()) return refuse(*sending->exchange, media.status(), headers);
    const std::optional<ByteRange> asked = ParseRange(range, media->size);
    const ByteRange part = asked.value_or(ByteRange{0, media->size});
    sending->next = part.first;
    sending->end = part.end;
    sending->file.open(media->path, std::ios::binary);
    sending->file.seekg(static_cast<std::streamoff>(sending->next));
    if (!sending->file) {
      return refuse(*sending->exchange, absl::UnavailableError("the file cannot be read; try again"), headers);
    }
    headers.emplace_back("Accept-Ranges", "bytes");
    if (asked) {
      headers.emplace_back("Content-Range", absl::StrCat("bytes ", part.first, "-", part.end - 1, "/", media->size));
    }
    WebReply head{.status = asked ? 206 : 200, .type = media->type, .headers = std::move(headers)};
    if (sending->end - sending->next <= kPartBytes) {
      head.body.resize(sending->end - sending->next);
      sending->file.read(head.body.data(), static_cast<std::streamsize>(head.body.size()));
      head.body.resize(static_cast<std::size_t>(sending->file.gcount()));
      return sending->exchange->Reply(std::move(head));
    }
    sending->exchange->BeginStream(std::move(head));
    sending->exchange->OnSent([this, sending] {
      // One read per open file fits into the queue.
      reader_.Submit([this, sending] { SendNext(sending); });
    });
  };
  if (!reader_.Submit(begin)) refuse(*exchange, Executor::Busy(), headers);
}

void MediaFiles::SendNext(const std::shared_ptr<Sending>& sending) {
  std::string part(std::min(kPartBytes, sending->end - sending->next), '\0');
  sending->file.read(part.data(), static_cast<std::streamsize>(part.size()));
  // A file that was made shorter meanwhile ends early.
  const bool whole = static_cast<std::size_t>(sending->file.gcount()) == part.size();
  part.resize(static_cast<std::size_t>(sending->file.gcount()));
  sending->next = whole ? sending->next + part.size() : sending->end;
  if (sending->next >= sending->end) return sending->exchange->EndStream(std::move(part));
  sending->exchange->SendPart(std::move(part));
}

}  // namespace fulcrum::pipeline
