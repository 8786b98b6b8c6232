// Long-running operations: campaigns that are being created, and rows that are being appended.
//
// A creation is a file in DATA/operations from before CreateCampaign is answered until a day after its end. One that
// has not ended when the process does is run again by the next one: creating leaves nothing behind unless it succeeds.
// Creations run on a few threads of their own, so that no call waits behind an import. An append is work of the call
// that sends the rows, and is only listed here; it ends with the call and is not known to the next process.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/operation_service.pb.h"
#include "pipeline/campaign/campaign_registry.h"

namespace fulcrum::pipeline {

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
  /// Lists rows that somebody appends to a campaign, until EndAppend. `cancel` lets the append end soon; it is called
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
