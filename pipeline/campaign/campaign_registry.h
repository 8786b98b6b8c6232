// Every campaign of one daemon, by name.
//
// A campaign is a folder under DATA/campaigns. All of them are opened at the start. One that cannot be opened is
// broken: it is listed with the reason, and opening it is retried, because the reason may pass (a full disk).
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/operation_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/files.h"

namespace fulcrum::pipeline {

struct CampaignRegistryOptions {
  std::string data_folder = {};
  PoolPlaces pools = {};
  ClusterLaunchers launchers = {};      ///< what may compute rounds
  std::size_t memory_budget = 0;        ///< bytes for pools and rounds; 0: no limit but the machine's
  std::size_t most_campaigns = 10'000;  ///< more are refused; each takes two threads and four files
  /// Something changed in this campaign; called on its store's writing thread.
  std::function<void(const std::string& name)> on_change = {};
  /// A campaign's store is over: the process should end.
  std::function<void(const absl::Status&)> on_fatal = {};
  /// A campaign's round ended with a batch; called on the campaign's thread.
  std::function<void(const std::string& name, const CampaignRound::Times&)> on_round = {};
  /// A campaign's commit took so long; called on its store's writing thread.
  std::function<void(const std::string& name, std::chrono::nanoseconds)> on_commit_time = {};
  /// A campaign was deleted: no other callback follows for it.
  std::function<void(const std::string& name)> on_delete = {};
  /// Before the first retry of opening a broken campaign; doubled with every retry.
  std::chrono::milliseconds reopen_time{5'000};
  const storage::Clock* clock = nullptr;  ///< of all stores; null: each has an AnchoredClock
};

class CampaignRegistry {
 public:
  /// Opens the existing campaigns. Unavailable if another daemon has the data folder, Cancelled if `stop` ends it: then
  /// all of them are closed again.
  static absl::StatusOr<std::unique_ptr<CampaignRegistry>> Open(CampaignRegistryOptions options,
                                                                const std::stop_token& stop = {});

  /// Imports the pool, which takes its time. AlreadyExists for a name that is in use, Aborted for one that is being
  /// created, opened or deleted, Cancelled if `control` ends it.
  absl::StatusOr<std::shared_ptr<Campaign>> Create(const v1::CampaignSpec& spec, const ImportControl& control = {});
  /// NotFound or FailedPrecondition if a source is an upload that cannot be used; otherwise it is kept for a while.
  absl::Status CheckUploads(const v1::CampaignSpec& spec) const;
  /// InvalidArgument if its rounds are to be computed by something that this daemon may not start.
  absl::Status CheckLauncher(const CampaignPlan& plan) const {
    return pipeline::CheckLauncher(options_.launchers, plan);
  }
  /// Whether there is a campaign of this name, also a broken one.
  bool Contains(const std::string& name) const;
  /// NotFound without one of this name; for a broken campaign, why it could not be opened.
  absl::StatusOr<std::shared_ptr<Campaign>> Find(const std::string& name) const;
  /// Up to `most` campaigns whose names come after `after`, by name, without the broken ones.
  std::vector<std::shared_ptr<Campaign>> List(const std::string& after, std::size_t most) const;
  /// The state of a campaign, also of a broken one. NotFound without one of this name.
  absl::StatusOr<v1::Campaign> Describe(const std::string& name) const;
  /// The same for up to `most` campaigns whose names come after `after`, by name.
  std::vector<v1::Campaign> DescribeAll(const std::string& after, std::size_t most) const;
  /// Moves the campaign's folder to the trash and returns its new path: ends its streams, waits for the calls that use
  /// it, and closes it. FailedPrecondition while it runs, Unavailable if a call or a round does not end. A repeated
  /// request gets the same answer.
  absl::StatusOr<std::string> Delete(const std::string& name, const ChangeOrder& order);
  /// Cancels the rounds of all campaigns, so that closing them need not wait for one after the other.
  void RequestStop();
  /// Closes all campaigns, and waits for their rounds until then. Returns the names of those whose round has not
  /// ended: they stay open, and only the end of the process ends them. Everything that was acknowledged is on disk.
  std::vector<std::string> Close(std::chrono::steady_clock::time_point until);
  /// Names and reasons of the campaigns that could not be opened.
  std::map<std::string, absl::Status> broken() const;
  /// Names of the campaigns that run no rounds because these killed the process; see RoundMarker.
  std::vector<std::string> quarantined() const;

 private:
  /// A campaign and those who use it. What Find gives is a handle: the campaign itself is closed by its registry, on
  /// the registry's thread, when the last handle has gone.
  class HeldCampaign;
  using Entry = absl::StatusOr<std::shared_ptr<HeldCampaign>>;

  explicit CampaignRegistry(CampaignRegistryOptions options)
      : options_(std::move(options)), memory_(options_.memory_budget) {}
  std::string FolderOf(const std::string& name) const { return options_.data_folder + "/campaigns/" + name; }
  CampaignServices ServicesOf(const std::string& name) const;
  static absl::Status MakeFolder(const std::string& path);
  absl::Status OpenAll(const std::stop_token& stop);
  /// Returns when all are open, or `stop` is requested.
  void OpenTogether(const std::vector<std::string>& names, std::size_t most_threads, const std::stop_token& stop);
  /// ResourceExhausted if there are as many campaigns as there may be.
  absl::Status CheckRoom() const;
  /// Until `stop`, tries to open the broken campaigns again and again.
  void RetryBroken(const std::stop_token& stop);
  /// A handle; null while the campaign is being deleted, and why it is broken if it is.
  static absl::StatusOr<std::shared_ptr<Campaign>> HandleOf(const Entry& entry);
  /// Cancelled if `stop` ends it.
  Entry OpenCampaign(const std::string& name, const std::stop_token& stop) const;
  absl::Status CloseForDeletion(const std::string& name, HeldCampaign& held);
  absl::StatusOr<std::string> MoveToTrash(const std::string& name, const ChangeOrder& order) const;
  /// Where an earlier request with the same id has moved a campaign of this name.
  std::optional<std::string> FindDeleted(const std::string& name, const ChangeOrder& order) const;

  /// As long as it lives, no other thread creates, deletes or opens a campaign of this name.
  class NameClaim {
   public:
    NameClaim(CampaignRegistry& registry, std::string name) : registry_(&registry), name_(std::move(name)) {}
    NameClaim(NameClaim&& other) noexcept : registry_(std::exchange(other.registry_, nullptr)), name_(other.name_) {}
    NameClaim& operator=(NameClaim&&) = delete;
    ~NameClaim();

   private:
    CampaignRegistry* registry_;
    const std::string name_;
  };
  /// Aborted if another thread has it.
  absl::StatusOr<NameClaim> Claim(const std::string& name);

  const CampaignRegistryOptions options_;
  mutable MemoryBudgetShare memory_;
  std::optional<FileLock> lock_;  // two daemons on one folder would each hold half of the campaigns
  mutable std::mutex mutex_;
  std::map<std::string, Entry> campaigns_;
  std::set<std::string> changing_;  // names that are being created, deleted or opened: two of them must not race
  std::condition_variable_any stopping_;
  std::jthread reopener_;  // last: it uses all of the above
};

class CampaignRegistry::HeldCampaign {
 public:
  explicit HeldCampaign(std::shared_ptr<Campaign> campaign) : campaign_(std::move(campaign)) { Reopen(); }

  const std::shared_ptr<Campaign>& handle() const { return handle_; }
  Campaign& campaign() const { return *campaign_; }

  /// Gives no more handles until Reopen.
  void StopGiving() { handle_.reset(); }
  /// After StopGiving: waits until all handles are gone. False if some are still there.
  bool WaitForUsers(std::chrono::steady_clock::time_point until) const {
    std::unique_lock lock(users_->mutex);
    return users_->gone.wait_until(lock, until, [this] { return users_->none; });
  }
  void Reopen() {
    users_ = std::make_shared<Users>();
    handle_ = std::shared_ptr<Campaign>(campaign_.get(), [users = users_](Campaign*) {
      const std::scoped_lock lock(users->mutex);
      users->none = true;
      users->gone.notify_all();
    });
  }
  /// For one whose users or whose round do not end: only the end of the process ends it.
  void Abandon() { new std::shared_ptr<Campaign>(campaign_); }

 private:
  struct Users {
    std::mutex mutex;
    std::condition_variable gone;
    bool none = false;
  };
  const std::shared_ptr<Campaign> campaign_;
  std::shared_ptr<Users> users_;
  std::shared_ptr<Campaign> handle_;
};

// Long-running operations: campaigns that are being created, and rows that are being appended.
//
// A creation is a file in DATA/operations from before CreateCampaign is answered until a day after its end. One that
// has not ended when the process does is run again by the next one: creating leaves nothing behind unless it succeeds.
// Creations run on a few threads of their own, so that no call waits behind an import. An append is work of the call
// that sends the rows, and is only listed here; it ends with the call and is not known to the next process.
// Thread-safe.

class CampaignOperations {
 public:
  /// Takes up the operations that have not ended. The registry must outlive it.
  static absl::StatusOr<std::unique_ptr<CampaignOperations>> Open(const std::string& data_folder,
                                                                  CampaignRegistry& campaigns);
  /// Cancels what runs; it is run again when the folder is opened again.
  ~CampaignOperations();
  CampaignOperations(const CampaignOperations&) = delete;
  CampaignOperations& operator=(const CampaignOperations&) = delete;

  /// What Create would refuse before it looks at the sources.
  absl::Status Check(const v1::CreateCampaignRequest& request) const;
  /// Starts to create a campaign. A repeated request id of the same caller gives the operation that it started.
  /// AlreadyExists if the name is in use or the request id was used with another specification.
  absl::StatusOr<v1::Operation> Create(const v1::CreateCampaignRequest& request, const std::string& by);
  /// Lists rows that a client appends to a campaign, until EndAppend. `cancel` lets the append end soon; it is called
  /// on any thread. Returns the name of the operation.
  std::string BeginAppend(const std::string& campaign, const std::string& by, std::function<void()> cancel);
  void NoteRows(const std::string& name, std::size_t rows);
  /// `added` is the number of rows, or why there are none.
  void EndAppend(const std::string& name, const absl::StatusOr<std::int64_t>& added);
  /// NotFound without one of this name.
  absl::StatusOr<v1::Operation> Get(const std::string& name) const;
  /// Up to `most` operations that come after `after`, the newest first.
  std::vector<v1::Operation> List(const std::string& after, std::size_t most) const;
  /// Lets an operation end soon; one that has ended stays as it is.
  absl::StatusOr<v1::Operation> Cancel(const std::string& name);
  /// Lets the threads end; what they do is taken up when the folder is opened again.
  void RequestStop();

 private:
  struct Entry {
    v1::Operation operation;
    v1::CreateCampaignRequest request;
    std::stop_source stop;
    std::function<void()> on_cancel;  ///< of an append
    bool cancelled = false;           ///< by a call, not by the end of the process
  };
  using Entries = std::map<std::string, std::shared_ptr<Entry>>;

  CampaignOperations(std::string folder, CampaignRegistry& campaigns);
  absl::Status Load();
  absl::Status Save(const Entry& entry) const;
  std::string FileOf(const std::string& name) const { return folder_ + "/" + name + ".json"; }
  /// Creates the campaign, unless the process died in it again and again.
  absl::StatusOr<std::shared_ptr<Campaign>> CreateMarked(const std::shared_ptr<Entry>& entry);
  absl::StatusOr<std::shared_ptr<Entry>> FindRepeated(const v1::CreateCampaignRequest& request,
                                                      const std::string& by) const;
  absl::Status CheckName(const std::string& campaign) const;
  v1::Operation NewOperation(v1::OperationKind kind, const std::string& campaign, const std::string& by) const;
  static void NoteEnd(Entry& entry, const absl::Status& status);
  void RemoveOld();
  void Loop(const std::stop_token& stop);
  void Run(const std::shared_ptr<Entry>& entry);
  void End(const std::shared_ptr<Entry>& entry, const absl::StatusOr<std::shared_ptr<Campaign>>& created);

  const std::string folder_;
  CampaignRegistry& campaigns_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Entries entries_;
  std::deque<std::shared_ptr<Entry>> queue_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace fulcrum::pipeline
