// `fulcrum campaign watch NAME`: a screen that is redrawn on a terminal, lines otherwise.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/commands/command_line.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRedrawPause{100};
constexpr std::size_t kUsualColumns = 80;
// A person is watching: a server that is available again should be noticed quickly.
constexpr RetryPolicy kWatchRetry{.longest_pause = std::chrono::milliseconds(1'000)};

std::size_t TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Redraws the screen over the last one, at a limited rate. A thread draws what the rate has held back, so that the
/// picture is never older than a pause.
class LivePicture {
 public:
  void Follow(const v1::CampaignEvent& event) {
    const std::scoped_lock lock(mutex_);
    if (!drawer_.joinable()) drawer_ = std::jthread([this](const std::stop_token& stop) { DrawLater(stop); });
    screen_.Follow(event);
    stale_ = true;
    if (event.has_campaign() || Clock::now() - drawn_at_ > kRedrawPause) Redraw();
  }

  /// Draws what the limited rate has held back.
  void Finish() {
    if (drawer_.joinable()) {
      drawer_.request_stop();
      drawer_.join();
    }
    if (lines_ > 0) Redraw();
  }

 private:
  void DrawLater(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      never_.wait_for(lock, stop, kRedrawPause, [] { return false; });
      if (stale_ && !stop.stop_requested()) Redraw();
    }
  }
  void Redraw() {
    const std::string picture = screen_.Draw(TerminalColumns());
    // Move up to the first line of the last screen and erase it.
    Print(absl::StrCat(lines_ > 0 ? absl::StrCat("\x1b[", lines_, "A\r\x1b[J") : "", picture));
    lines_ = std::count(picture.begin(), picture.end(), '\n');
    drawn_at_ = Clock::now();
    stale_ = false;
  }

  std::mutex mutex_;
  std::condition_variable_any never_;
  bool stale_ = false;
  WatchScreen screen_;
  long lines_ = 0;
  Clock::time_point drawn_at_{};
  std::jthread drawer_;  // last: it uses all of the above
};

struct WatchCommandOptions : CampaignOptions {
  bool verbose = false;
};

/// How events are shown, by the kind of output and the options.
std::function<void(const v1::CampaignEvent&)> Teller(const WatchCommandOptions& options, LivePicture& picture) {
  if (options.json) {
    return [](const v1::CampaignEvent& event) {
      const auto text = JsonText(event, /*one_line=*/true);
      Print(text.ok() ? *text : absl::StrCat(text.status().message(), "\n"));
    };
  }
  if (options.verbose) return [](const v1::CampaignEvent& event) { Print(EventLine(event) + "\n"); };
  if (isatty(STDOUT_FILENO) == 1) return [&picture](const v1::CampaignEvent& event) { picture.Follow(event); };
  return [lines = WatchLines()](const v1::CampaignEvent& event) mutable { Print(lines.Follow(event)); };
}

absl::Status Watch(const WatchCommandOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  CampaignCalls calls(connection);
  // The first call is not retried, so that a wrong name or address is reported immediately.
  FULCRUM_RETURN_IF_ERROR(calls.Get(options.name).status());
  const StopFlag stop;
  LivePicture picture;
  const absl::Status status =
      WatchToTheEnd(calls, options.name, kWatchRetry, WallTiming(stop), Teller(options, picture));
  picture.Finish();
  return status;
}

CommandRun AddWatch(CLI::App& app) {
  auto options = std::make_shared<WatchCommandOptions>();
  AddCampaignName(app, *options);
  app.add_flag("-v,--verbose", options->verbose, "Print one line per event, including stages and labels");
  AddCampaignOptions(app, *options);
  app.footer(
      "On a terminal it draws the round and the learning curve (accuracy if the campaign measures it, otherwise the\n"
      "share of predictions that each round changed); otherwise it prints one line per round. With --json every event\n"
      "is one line of JSON.\n"
      "Ends with exit code 0 when the campaign is done, and with 65 and the reason if it failed. If the server "
      "becomes\n"
      "unavailable, it retries for up to five minutes.");
  return [options] { return Watch(*options); };
}

}  // namespace

Command CampaignWatchCommand() {
  return {"watch", "Read", "Follow a campaign live, until it is done", AddWatch};
}

}  // namespace fulcrum::pipeline
