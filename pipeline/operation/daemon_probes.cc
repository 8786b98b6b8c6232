#include "pipeline/operation/daemon_probes.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/operation/listener_knock.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kProbeBytes = 4096;

struct Nothing {};

absl::StatusOr<Nothing> AskNothing(storage::Ledger& /*ledger*/, const Nothing& /*request*/) {
  return Nothing{};
}

std::future<absl::Status> AskWriter(Campaign& campaign) {
  const auto answer = std::make_shared<std::promise<absl::Status>>();
  campaign.store().Start(AskNothing, {}, [answer](const absl::StatusOr<Nothing>& result) {
    // A queue that is full is busy, not dead: its thread was seen at work by whoever filled it.
    answer->set_value(absl::IsResourceExhausted(result.status()) ? absl::OkStatus() : result.status());
  });
  return answer->get_future();
}

}  // namespace

Probe ListenerProbe(std::string address, int port) {
  return {"listener", [address = std::move(address), port](std::chrono::milliseconds patience) {
            return KnockAtListener(address, port, patience);
          }};
}

Probe CallProbe(const GrpcServer& server) {
  return {"calls", [channel = server.InProcessChannel()](std::chrono::milliseconds patience) {
            grpc::ClientContext context;
            context.set_deadline(std::chrono::system_clock::now() + patience);
            v1::GetVersionResponse response;
            const grpc::Status status = v1::ServerService::NewStub(channel)->GetVersion(&context, {}, &response);
            if (status.ok()) return absl::OkStatus();
            return absl::UnavailableError(absl::StrCat("a call to itself failed: ", status.error_message()));
          }};
}

Probe StoreProbe(const CampaignBook& campaigns) {
  return {"stores", [&campaigns](std::chrono::milliseconds patience) -> absl::Status {
            const auto until = std::chrono::steady_clock::now() + patience;
            std::vector<std::pair<std::string, std::future<absl::Status>>> answers;
            for (const auto& campaign : campaigns.List("", kAll)) {
              answers.emplace_back(campaign->plan().name, AskWriter(*campaign));
            }
            for (auto& [name, answer] : answers) {
              if (answer.wait_until(until) == std::future_status::timeout) {
                return absl::UnavailableError(absl::StrCat("the writing thread of campaign '", name, "' hangs"));
              }
              FULCRUM_RETURN_IF_ERROR(answer.get());
            }
            return absl::OkStatus();
          }};
}

absl::Status CheckStores(const CampaignBook& campaigns) {
  for (const auto& campaign : campaigns.List("", kAll)) FULCRUM_RETURN_IF_ERROR(campaign->store().health());
  return absl::OkStatus();
}

absl::Status CheckDiskIsWritable(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/.writable-", getpid());
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::array<char, kProbeBytes> bytes{};
  const bool written = descriptor >= 0 && write(descriptor, bytes.data(), bytes.size()) == kProbeBytes;
  const std::string reason = std::strerror(errno);
  if (descriptor >= 0) {
    close(descriptor);
    unlink(path.c_str());
  }
  if (written) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the data folder '", folder, "' cannot be written: ", reason));
}

std::string DescribeInOneLine(const CampaignBook& campaigns) {
  std::size_t count = 0, running = 0, leases = 0;
  std::int64_t labels = 0;
  for (const auto& campaign : campaigns.List("", kAll)) {
    const auto status = campaign->store().status();
    ++count;
    running += campaign->offers_tasks() ? 1 : 0;
    leases += status->live_leases;
    labels += status->totals.labels;
  }
  return absl::StrCat(count, " campaigns, ", running, " of them running; ", leases, " leases, ", labels, " labels");
}

}  // namespace fulcrum::pipeline
