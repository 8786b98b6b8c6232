// How a daemon opens its campaigns: all of them when it starts, and broken ones again later.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/files.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kLongestReopenTime{300'000};
constexpr std::size_t kOpeningThreads = 8;
// More than for a round: who restarts a daemon by force again and again may hit the same campaign twice.
constexpr std::int64_t kMostDeathsWhileOpening = 3;

}  // namespace

absl::Status CampaignRegistry::MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot make the folder '", path, "': ", error.message()));
}

CampaignRegistry::Entry CampaignRegistry::OpenCampaign(const std::string& name, const std::stop_token& stop) const {
  FULCRUM_ASSIGN_OR_RETURN(CrashMarker marker, CrashMarker::Open(FolderOf(name) + "/open.marker"));
  if (marker.deaths() >= kMostDeathsWhileOpening) {
    return absl::FailedPreconditionError(absl::StrCat("the process died ", marker.deaths(),
                                                      " times in a row while it opened the campaign. Fix the cause "
                                                      "(`fulcrum fsck ",
                                                      FolderOf(name), "`, a newer version, more memory), then delete '",
                                                      marker.path(), "'"));
  }
  // Not durable: it is written for every campaign at every start, and a power failure is not the campaign's fault.
  FULCRUM_RETURN_IF_ERROR(marker.Begin("opening", /*durable=*/false));
  absl::StatusOr<std::shared_ptr<Campaign>> campaign = absl::CancelledError("the daemon is stopping");
  // Without memory or threads for one campaign the others go on.
  const absl::Status status = RunGuarded([&]() -> absl::Status {
    try {
      const StopScope scope(stop);
      campaign = Campaign::Open(FolderOf(name), ServicesOf(name));
    } catch (const StoppedOnRequest&) {
    }
    return campaign.status();
  });
  FULCRUM_RETURN_IF_ERROR(stop.stop_requested() ? marker.Cancel() : marker.End());
  FULCRUM_RETURN_IF_ERROR(status);
  return std::make_shared<HeldCampaign>(*std::move(campaign));
}

CampaignServices CampaignRegistry::ServicesOf(const std::string& name) const {
  CampaignServices services;
  services.pools = options_.pools;
  services.launchers = options_.launchers;
  services.memory = &memory_;
  services.clock = options_.clock;
  services.on_change = [this, name] {
    if (options_.on_change) options_.on_change(name);
  };
  services.on_fatal = options_.on_fatal;
  services.on_round = [this, name](const CampaignRound::Times& times) {
    if (options_.on_round) options_.on_round(name, times);
  };
  services.on_commit_time = [this, name](std::chrono::nanoseconds taken) {
    if (options_.on_commit_time) options_.on_commit_time(name, taken);
  };
  return services;
}

absl::StatusOr<std::unique_ptr<CampaignRegistry>> CampaignRegistry::Open(CampaignRegistryOptions options,
                                                                         const std::stop_token& stop) {
  std::unique_ptr<CampaignRegistry> registry(new CampaignRegistry(std::move(options)));
  FULCRUM_RETURN_IF_ERROR(MakeFolder(registry->options_.data_folder + "/campaigns"));
  absl::StatusOr<FileLock> lock = FileLock::Take(registry->options_.data_folder);
  if (!lock.ok()) {
    return absl::Status(
        lock.status().code(),
        absl::StrCat("another daemon has the data folder '", registry->options_.data_folder,
                     "': stop it first, or give this one a folder of its own (", lock.status().message(), ")"));
  }
  registry->lock_.emplace(*std::move(lock));
  FULCRUM_RETURN_IF_ERROR(registry->OpenAll(stop));
  registry->reopener_ = std::jthread([&it = *registry](const std::stop_token& closed) { it.RetryBroken(closed); });
  return registry;
}

absl::Status CampaignRegistry::OpenAll(const std::stop_token& stop) {
  RemoveUnfinishedCampaigns(options_.data_folder + "/campaigns");
  std::error_code error;
  const std::filesystem::directory_iterator folders(options_.data_folder + "/campaigns", error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read '", options_.data_folder, "': ", error.message()));
  std::vector<std::string> names;
  // The process died while it opened these, or others next to them.
  std::vector<std::string> suspects;
  for (const auto& folder : folders) {
    std::string name = folder.path().filename().string();
    if (!CheckCampaignName(name).ok()) continue;
    std::error_code ignored;
    const bool suspect = std::filesystem::exists(FolderOf(name) + "/open.marker", ignored);
    (suspect ? suspects : names).push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  std::sort(suspects.begin(), suspects.end());
  OpenTogether(names, kOpeningThreads, stop);
  // One at a time, so that the next death counts for the one that causes it.
  OpenTogether(suspects, 1, stop);
  if (!stop.stop_requested()) return absl::OkStatus();
  // Their rounds end side by side.
  RequestStop();
  return absl::CancelledError("stopped while the campaigns were opened");
}

void CampaignRegistry::OpenTogether(const std::vector<std::string>& names, std::size_t most_threads,
                                    const std::stop_token& stop) {
  // Opening one is mostly waiting for the disk.
  std::atomic<std::size_t> next = 0;
  const auto open = [&] {
    for (std::size_t i = next++; i < names.size() && !stop.stop_requested(); i = next++) {
      Entry entry = OpenCampaign(names[i], stop);
      const std::scoped_lock lock(mutex_);
      campaigns_.emplace(names[i], std::move(entry));
    }
  };
  std::vector<std::jthread> threads;
  const absl::Status started = RunGuarded([&] {
    while (threads.size() + 1 < std::min(most_threads, names.size())) threads.emplace_back(open);
    return absl::OkStatus();
  });
  if (!started.ok()) Log(LogLevel::kWarning, std::string(started.message()));
  open();
}

void CampaignRegistry::RetryBroken(const std::stop_token& stop) {
  std::chrono::milliseconds pause = options_.reopen_time;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_for(lock, stop, pause, [] { return false; });
    }
    const std::map<std::string, absl::Status> before = broken();
    pause = before.empty() ? options_.reopen_time : std::min(2 * pause, kLongestReopenTime);
    for (const auto& [name, reason] : before) {
      const auto claim = Claim(name);
      if (stop.stop_requested()) return;
      if (!claim.ok() || !broken().contains(name)) continue;
      Entry opened = OpenCampaign(name, stop);
      if (opened.ok()) Log(LogLevel::kInfo, "campaign opened", {{"campaign", name}});
      const std::scoped_lock lock(mutex_);
      campaigns_.insert_or_assign(name, std::move(opened));
    }
    if (stop.stop_requested()) return;
  }
}

std::string Campaign::lost_events() const {
  const std::string& lost = store_->opening_findings().lost_events;
  std::error_code ignored;
  if (lost.empty() || !std::filesystem::exists(store_->folder().lost_events(), ignored)) return "";
  std::string lines = absl::StrReplaceAll(absl::StripSuffix(lost, "\n"), {{"\n", "; "}});
  return absl::StrCat("labels may be missing: ", lines);
}

void Campaign::LogFindings() const {
  if (const std::string lost = lost_events(); !lost.empty()) {
    Log(LogLevel::kError, "campaign lost events", {{"campaign", name_}, {"reason", lost}});
  }
  if (const std::string& warning = store_->opening_findings().warning; !warning.empty()) {
    Log(LogLevel::kWarning, "campaign may have lost events", {{"campaign", name_}, {"reason", warning}});
  }
}

}  // namespace fulcrum::pipeline
