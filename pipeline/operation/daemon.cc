#include "pipeline/operation/daemon.h"

#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/operation/metrics.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/campaign_service.h"
#include "pipeline/server/executor.h"
#include "pipeline/server/grpc_server.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/version.h"
#include "pipeline/web/web_server.h"
#include "pipeline/web/web_site.h"
#include "stages/core/status_macros.h"
#include "tbb/global_control.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kExecutorThreads = 4;
constexpr std::size_t kLaneThreads = 4;
constexpr std::size_t kHeavyThreads = 2;
constexpr std::size_t kMostQueuedCalls = 256;

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:") || absl::StartsWith(address, "unix:");
}

absl::Status CheckAddress(const DaemonOptions& options, const std::string& address) {
  if (address.empty() || IsLoopback(address)) return absl::OkStatus();
  if (options.server.tls_certificate.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to listen on ", address,
                     " without TLS: tokens and labels would travel in the clear. Give --tls-cert "
                     "and --tls-key, or listen on 127.0.0.1"));
  }
  if (!options.ask_for_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to listen on ", address,
                     " without tokens: every client could label and delete. Leave --no-tokens out, or "
                     "listen on 127.0.0.1"));
  }
  return absl::OkStatus();
}

absl::Status CheckListenOptions(const DaemonOptions& options) {
  FULCRUM_RETURN_IF_ERROR(CheckAddress(options, options.server.address));
  return CheckAddress(options, options.web.address);
}

/// A budget that the system does not grant would end with the process killed in the middle of a round.
absl::Status CheckMemoryBudget(std::size_t budget) {
  const std::size_t machine = MachineMemoryBytes();
  if (budget <= machine) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("memory_budget is ", budget >> 20,
                   " MiB, but the machine or the control group (container, systemd unit) has only ", machine >> 20,
                   " MiB. Lower the budget or raise the limit; leave a quarter for connections and buffers"));
}

/// Labels and tokens are private to the owner. Existing folders of older versions are made private as well.
absl::Status MakePrivate(const std::string& data_folder) {
  umask(0077);
  std::error_code error;
  for (const char* const name : {"/campaigns", "/operations", "/trash", "/uploads"}) {
    const std::filesystem::path folder = data_folder + name;
    std::filesystem::create_directories(folder, error);
    if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot make the folder '", folder.string(), "' private: ", error.message()));
    }
  }
  return absl::OkStatus();
}

/// Connections and databases take file descriptors; the usual limit of 1024 is for programs with a few.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Connections over HTTP: at most a quarter of the file descriptors, so that gRPC and the databases have theirs.
std::size_t MostWebConnections(const DaemonOptions& options) {
  const std::size_t most = std::min(options.server.max_connections, WebServerOptions().max_connections);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(most, limit.rlim_cur / 4);
}

/// The file of this program; its name if that is unknown.
std::string OwnProgram() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "fulcrum" : path.string();
}

/// Returns memory to the system when a campaign is closed. By default the allocator raises its threshold after the
/// first large matrix and keeps later ones in per-thread arenas, so the daemon would grow with every campaign.
void GiveMemoryBack() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace

struct Daemon::Parts {
  DaemonOptions options = {};
  int fatal_event = -1;
  std::mutex mutex;
  absl::Status fatal;

  std::optional<tbb::global_control> thread_limit;  // of rounds
  ReplySender replies;                              // first: all calls are answered through it
  std::unique_ptr<TokenStore> tokens;
  std::unique_ptr<AccessControl> access;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Executor> lane;   // for calls that read or write files, in small steps
  std::unique_ptr<Executor> heavy;  // for calls that work on a whole pool or log
  std::unique_ptr<Executor> closing, search;
  std::unique_ptr<TaskWaiters> waiters;
  std::unique_ptr<TaskWaiters> model_waiters;  // processes that ask for the task of a round
  DaemonMetrics metrics;
  std::unique_ptr<UploadStore> uploads;
  std::unique_ptr<CampaignRegistry> campaigns;
  std::unique_ptr<CampaignOperations> operations;
  std::unique_ptr<GrpcServer> server;
  std::unique_ptr<WebSite> site;
  std::unique_ptr<WebServer> web;
  std::unique_ptr<DaemonWatch> watch;

  ~Parts() {
    // Waiting calls are released first, then the services are destroyed, and what they use last. The campaigns'
    // threads notify the waiters until then.
    watch.reset();
    if (web) web->Stop();
    if (waiters) waiters->Stop();
    if (model_waiters) model_waiters->Stop();
    if (operations) operations->RequestStop();
    if (campaigns) campaigns->RequestStop();
    // Before the services are destroyed: requests in the queues of the stores are answered through them.
    if (server) server->Stop(std::chrono::milliseconds(0)).IgnoreError();
    web.reset();
    site.reset();
    executor.reset();
    lane.reset();
    heavy.reset();
    closing.reset();
    search.reset();
    operations.reset();
    if (campaigns) campaigns->Close(std::chrono::steady_clock::now() + options.stop_time);
    server.reset();
    access.reset();
    campaigns.reset();
    uploads.reset();
    waiters.reset();
    model_waiters.reset();
    if (fatal_event >= 0) close(fatal_event);
  }

  void Fail(const absl::Status& status) {
    {
      const std::scoped_lock lock(mutex);
      if (fatal.ok()) fatal = status;
    }
    const std::uint64_t one = 1;
    if (write(fatal_event, &one, sizeof(one)) < 0) std::abort();
  }

  void NoteRound(const std::string& name, const CampaignRound::Times& times) {
    metrics.ObserveRound(name, times.warm, times.seconds, times.stages);
    Log(LogLevel::kInfo, "batch committed",
        {{"campaign", name}, {"round", times.round}, {"seconds", times.seconds}, {"warm", times.warm}});
  }

  DaemonWatch::Subject Watched() {
    return {.grpc_address = options.server.address,
            .campaigns = *campaigns,
            .server = *server,
            .queues = {.calls =
                           [this] {
                             return executor->queued() + lane->queued() + heavy->queued() + closing->queued() +
                                    search->queued();
                           },
                       .workers = [this] { return waiters->waiting(); }},
            .tls = !options.server.tls_certificate.empty()};
  }

  absl::Status StartWeb() {
    if (options.web.address.empty()) return absl::OkStatus();
    site = std::make_unique<WebSite>(WebSite::Options{.pool_root = options.pool_root, .tokens = options.ask_for_tokens},
                                     server->InProcessChannel());
    auto started = WebServer::Start(
        {.address = options.web.address,
         .tls_certificate = options.server.tls_certificate,
         .tls_key = options.server.tls_key,
         .tls_client_authorities = options.server.tls_client_authorities,
         .max_connections = MostWebConnections(options)},
        [this](WebRequest request, const auto& exchange) { site->Handle(std::move(request), exchange); });
    if (started.ok()) {
      web = *std::move(started);
      return absl::OkStatus();
    }
    if (!options.web.may_fail || !absl::IsUnavailable(started.status())) return started.status();
    Log(LogLevel::kWarning, "no page: the address is in use",
        {{"address", options.web.address}, {"reason", std::string(started.status().message())}});
    return absl::OkStatus();
  }

  /// If the campaign is over, all waiters are woken to report it.
  std::size_t OpenTasks(const std::string& name) const {
    const auto campaign = campaigns->Find(name);
    if (!campaign.ok() || (*campaign)->over()) return SIZE_MAX;
    return (*campaign)->offers_tasks() ? (*campaign)->store().status()->open_slots : 0;
  }
  /// The same for model processes.
  std::size_t OpenModelTasks(const std::string& name) const {
    const auto campaign = campaigns->Find(name);
    if (!campaign.ok() || (*campaign)->over()) return SIZE_MAX;
    return (*campaign)->offers_model_task() ? 1 : 0;
  }
};

Daemon::Daemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Daemon::~Daemon() = default;

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options, const std::stop_token& stop) {
  FULCRUM_RETURN_IF_ERROR(CheckListenOptions(options));
  FULCRUM_RETURN_IF_ERROR(CheckMemoryBudget(options.memory_budget));
  FULCRUM_RETURN_IF_ERROR(MakePrivate(options.data_folder));
  RaiseFileLimit();
  GiveMemoryBack();
  auto parts = std::make_unique<Parts>();
  Parts& it = *parts;
  it.options = std::move(options);
  // Now, since the file may be replaced later on.
  if (it.options.launchers.program.empty()) it.options.launchers.program = OwnProgram();
  it.fatal_event = eventfd(0, EFD_CLOEXEC);
  if (it.fatal_event < 0) return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  FULCRUM_ASSIGN_OR_RETURN(it.watch, DaemonWatch::Start(it.options.watch, it.options.data_folder, it.metrics));
  it.options.server.on_call = [&it](const CallReport& call) { it.metrics.ObserveCall(call); };
  if (it.options.threads > 0) {
    it.thread_limit.emplace(tbb::global_control::max_allowed_parallelism, it.options.threads);
  }
  it.waiters = std::make_unique<TaskWaiters>([&it](const std::string& name) { return it.OpenTasks(name); });
  it.model_waiters = std::make_unique<TaskWaiters>([&it](const std::string& name) { return it.OpenModelTasks(name); });
  FULCRUM_ASSIGN_OR_RETURN(it.uploads, UploadStore::Open(it.options.data_folder, it.options.uploads, it.options.clock));
  FULCRUM_ASSIGN_OR_RETURN(
      it.campaigns,
      CampaignRegistry::Open(
          {.data_folder = it.options.data_folder,
           .pools = {.root = it.options.pool_root, .uploads = it.uploads.get()},
           .launchers = it.options.launchers,
           .memory_budget = it.options.memory_budget,
           .most_campaigns = it.options.most_campaigns,
           .on_change =
               [&it](const std::string& name) {
                 it.waiters->Notify(name);
                 it.model_waiters->Notify(name);
               },
           .on_fatal = [&it](const absl::Status& status) { it.Fail(status); },
           .on_round = [&it](const std::string& name, const auto& times) { it.NoteRound(name, times); },
           .on_commit_time = [&it](const std::string& name, auto taken) { it.metrics.ObserveCommit(name, taken); },
           .on_delete = [&it](const std::string& name) { it.metrics.Forget(name); },
           .reopen_time = it.options.reopen_time,
           .clock = it.options.clock},
          stop));
  for (const auto& [name, status] : it.campaigns->broken()) {
    Log(LogLevel::kError, "campaign cannot be opened", {{"campaign", name}, {"reason", std::string(status.message())}});
  }
  if (it.options.ask_for_tokens) {
    FULCRUM_ASSIGN_OR_RETURN(it.tokens, TokenStore::Open(it.options.data_folder));
  }
  it.access = std::make_unique<AccessControl>(it.tokens.get(), it.options.rate, [&it](const std::string& name) {
    for (const auto& campaign : it.campaigns->List("", SIZE_MAX)) ReleaseAllLeases(*campaign, name);
  });
  it.executor = std::make_unique<Executor>(kExecutorThreads, kMostQueuedCalls);
  it.lane = std::make_unique<Executor>(kLaneThreads, kMostQueuedCalls);
  it.heavy = std::make_unique<Executor>(kHeavyThreads, kMostQueuedCalls);
  it.closing = std::make_unique<Executor>(kHeavyThreads, kMostQueuedCalls);
  it.search = std::make_unique<Executor>(1, kMostQueuedCalls);
  const CallLanes lanes{*it.executor, *it.lane, *it.heavy, *it.closing, *it.search};
  FULCRUM_ASSIGN_OR_RETURN(it.operations, CampaignOperations::Open(it.options.data_folder, *it.campaigns));
  std::vector<RegisteredService> services;
  services.push_back(
      {"fulcrum.v1.ServerService", std::make_shared<ServerService>(ProgramVersion(), LibraryVersions())});
  services.push_back({"fulcrum.v1.LabelingService",
                      std::make_shared<LabelingService>(*it.campaigns, *it.access, *it.waiters, it.replies, *it.lane)});
  services.push_back(
      {"fulcrum.v1.ModelService",
       std::make_shared<ModelService>(*it.campaigns, *it.access, *it.model_waiters, it.replies, *it.lane)});
  services.push_back({"fulcrum.v1.CampaignService",
                      std::make_shared<CampaignService>(*it.campaigns, *it.operations, *it.access, lanes)});
  services.push_back({"fulcrum.v1.ItemService", std::make_shared<ItemService>(*it.campaigns, *it.access, *it.lane)});
  services.push_back(
      {"fulcrum.v1.AnnotatorService", std::make_shared<AnnotatorService>(*it.campaigns, *it.access, lanes)});
  services.push_back(
      {"fulcrum.v1.OperationService", std::make_shared<OperationService>(*it.operations, *it.access, *it.executor)});
  services.push_back(
      {"fulcrum.v1.AccessService", std::make_shared<AccessService>(it.tokens.get(), *it.access, *it.executor)});
  services.push_back(
      {"fulcrum.v1.ReportService", std::make_shared<ReportService>(*it.campaigns, *it.access, *it.heavy)});
  const PoolPlaces places{.root = it.options.pool_root, .uploads = it.uploads.get()};
  const std::size_t round_memory = it.options.memory_budget > 0 ? it.options.memory_budget / 4 : UsableMemoryBytes();
  services.push_back(
      {"fulcrum.v1.PoolService", std::make_shared<PoolService>(places, round_memory, *it.access, *it.heavy)});
  services.push_back({"fulcrum.v1.UploadService", std::make_shared<UploadService>(*it.uploads, *it.access, *it.lane)});
  if (!it.options.web.address.empty()) it.options.server.reserved_files = MostWebConnections(it.options);
  FULCRUM_ASSIGN_OR_RETURN(it.server, GrpcServer::Start(it.options.server, std::move(services)));
  FULCRUM_RETURN_IF_ERROR(it.StartWeb());
  it.watch->Attach(it.Watched());
  return std::unique_ptr<Daemon>(new Daemon(std::move(parts)));
}

int Daemon::port() const {
  return parts_->server->port();
}

int Daemon::watch_port() const {
  return parts_->watch->port();
}

int Daemon::web_port() const {
  return parts_->web == nullptr ? 0 : parts_->web->port();
}

absl::Status Daemon::Wait(int signals) {
  pollfd events[] = {{.fd = signals, .events = POLLIN, .revents = 0},
                     {.fd = parts_->fatal_event, .events = POLLIN, .revents = 0}};
  while (poll(events, 2, -1) < 0 && errno == EINTR) {
  }
  const std::scoped_lock lock(parts_->mutex);
  return parts_->fatal;
}

absl::Status Daemon::Stop() {
  const auto begun = std::chrono::steady_clock::now();
  const ExitTimer timer(parts_->options.stop_time, kForcedExit);
  parts_->watch->NoteStopping();
  parts_->operations->RequestStop();
  parts_->campaigns->RequestStop();
  parts_->waiters->Stop();
  parts_->model_waiters->Stop();
  if (parts_->web) parts_->web->Stop();
  const absl::Status status = parts_->server->Stop(timer.limit() / 2);
  const std::vector<std::string> stuck = parts_->campaigns->Close(begun + timer.limit() * 9 / 10);
  for (const std::string& name : stuck) {
    Log(LogLevel::kError, "exit forced: the round does not stop", {{"campaign", name}});
  }
  if (!stuck.empty() || !status.ok()) _exit(kForcedExit);
  parts_.reset();
  return status;
}

}  // namespace fulcrum::pipeline
