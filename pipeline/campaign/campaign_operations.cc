#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using google::protobuf::util::TimeUtil;

constexpr std::size_t kThreads = 2;
constexpr std::size_t kMostUnfinished = 100;
constexpr std::int64_t kKeptSeconds = 24 * 3600;
// Clients may append every second.
constexpr std::size_t kMostEndedAppends = 100;
constexpr char kEnding[] = ".json";

bool HasEnded(const v1::Operation& operation) {
  return operation.has_ended_at();
}

bool IsAppend(const v1::Operation& operation) {
  return operation.kind() == v1::OPERATION_KIND_APPEND_ITEMS;
}

/// With microseconds, unlike TimeUtil's own.
google::protobuf::Timestamp Now() {
  return TimeUtil::MicrosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

/// The newest first; names break ties, so that the order is complete.
bool ComesBefore(const v1::Operation& a, const v1::Operation& b) {
  const std::int64_t at_a = TimeUtil::TimestampToMicroseconds(a.created_at());
  const std::int64_t at_b = TimeUtil::TimestampToMicroseconds(b.created_at());
  return at_a != at_b ? at_a > at_b : a.name() < b.name();
}

}  // namespace

CampaignOperations::CampaignOperations(std::string folder, CampaignRegistry& campaigns)
    : folder_(std::move(folder)), campaigns_(campaigns) {}

absl::StatusOr<std::unique_ptr<CampaignOperations>> CampaignOperations::Open(const std::string& data_folder,
                                                                             CampaignRegistry& campaigns) {
  std::unique_ptr<CampaignOperations> operations(new CampaignOperations(data_folder + "/operations", campaigns));
  FULCRUM_RETURN_IF_ERROR(operations->Load());
  for (std::size_t i = 0; i < kThreads; ++i) {
    operations->threads_.emplace_back([&it = *operations](const std::stop_token& stop) { it.Loop(stop); });
  }
  return operations;
}

CampaignOperations::~CampaignOperations() {
  RequestStop();
  threads_.clear();
}

void CampaignOperations::RequestStop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) entry->stop.request_stop();
}

absl::Status CampaignOperations::Load() {
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::directory_iterator files(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read '", folder_, "': ", error.message()));
  for (const auto& file : files) {
    if (file.path().extension() != kEnding) continue;
    std::ifstream text(file.path());
    std::string operation, request;
    std::getline(text, operation);
    std::getline(text, request);
    const auto entry = std::make_shared<Entry>();
    absl::Status status = ParseStoredText(operation, entry->operation);
    if (status.ok()) status = ParseStoredText(request, entry->request);
    if (!status.ok()) {
      Log(LogLevel::kError, "operation cannot be read",
          {{"file", file.path().string()}, {"reason", std::string(status.message())}});
      continue;
    }
    entries_.emplace(entry->operation.name(), entry);
    if (HasEnded(entry->operation)) continue;
    entry->operation.set_state(v1::OPERATION_STATE_QUEUED);
    queue_.push_back(entry);
  }
  std::sort(queue_.begin(), queue_.end(),
            [](const auto& a, const auto& b) { return ComesBefore(b->operation, a->operation); });
  RemoveOld();
  return absl::OkStatus();
}

absl::Status CampaignOperations::Save(const Entry& entry) const {
  return ReplaceFile(FileOf(entry.operation.name()),
                     absl::StrCat(StoredText(entry.operation), "\n", StoredText(entry.request), "\n"));
}

void CampaignOperations::RemoveOld() {
  const std::int64_t now = TimeUtil::GetCurrentTime().seconds();
  std::multimap<std::int64_t, std::string> appends;
  std::erase_if(entries_, [&](const auto& named) {
    const v1::Operation& operation = named.second->operation;
    if (!HasEnded(operation)) return false;
    if (now - operation.ended_at().seconds() < kKeptSeconds) {
      if (IsAppend(operation)) appends.emplace(TimeUtil::TimestampToMicroseconds(operation.ended_at()), named.first);
      return false;
    }
    std::error_code ignored;
    if (!IsAppend(operation)) fs::remove(FileOf(operation.name()), ignored);
    return true;
  });
  for (; appends.size() > kMostEndedAppends; appends.erase(appends.begin())) entries_.erase(appends.begin()->second);
}

absl::StatusOr<std::shared_ptr<CampaignOperations::Entry>> CampaignOperations::FindRepeated(
    const v1::CreateCampaignRequest& request, const std::string& by) const {
  if (request.request_id().empty()) return nullptr;
  for (const auto& [name, entry] : entries_) {
    const bool same_id = entry->request.request_id() == request.request_id() && entry->operation.requested_by() == by;
    if (!same_id) continue;
    if (MessageDifferencer::Equals(entry->request, request)) return entry;
    return absl::AlreadyExistsError(absl::StrCat("request id '", request.request_id(),
                                                 "' was used for another campaign (operation ", name,
                                                 "); make a new id for every new request"));
  }
  return nullptr;
}

absl::Status CampaignOperations::CheckName(const std::string& campaign) const {
  std::size_t unfinished = 0;
  for (const auto& [name, entry] : entries_) {
    if (HasEnded(entry->operation) || IsAppend(entry->operation)) continue;
    ++unfinished;
    if (entry->operation.campaign() == campaign) {
      return absl::AlreadyExistsError(absl::StrCat("campaign '", campaign, "' is being created by operation ", name));
    }
  }
  if (campaigns_.Contains(campaign)) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a campaign '", campaign, "' already; choose another name or delete it"));
  }
  if (unfinished < kMostUnfinished) return absl::OkStatus();
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(unfinished, " campaigns are being created; try again later")),
      std::chrono::seconds(10));
}

v1::Operation CampaignOperations::NewOperation(v1::OperationKind kind, const std::string& campaign,
                                               const std::string& by) const {
  v1::Operation operation;
  *operation.mutable_created_at() = Now();
  std::int64_t number = TimeUtil::TimestampToMicroseconds(operation.created_at());
  const char* const verb = kind == v1::OPERATION_KIND_APPEND_ITEMS ? "append-" : "create-";
  const auto name = [&] { return absl::StrCat(verb, campaign, "-", number); };
  while (entries_.contains(name())) ++number;
  operation.set_name(name());
  operation.set_kind(kind);
  operation.set_campaign(campaign);
  operation.set_state(v1::OPERATION_STATE_QUEUED);
  operation.set_requested_by(by);
  return operation;
}

absl::Status CampaignOperations::Check(const v1::CreateCampaignRequest& request) const {
  FULCRUM_ASSIGN_OR_RETURN(const CampaignPlan plan, PlanCampaign(request.spec()));
  FULCRUM_RETURN_IF_ERROR(campaigns_.CheckLauncher(plan));
  const std::scoped_lock lock(mutex_);
  return CheckName(request.spec().name());
}

absl::StatusOr<v1::Operation> CampaignOperations::Create(const v1::CreateCampaignRequest& request,
                                                         const std::string& by) {
  FULCRUM_ASSIGN_OR_RETURN(const CampaignPlan plan, PlanCampaign(request.spec()));
  FULCRUM_RETURN_IF_ERROR(campaigns_.CheckLauncher(plan));
  const std::scoped_lock lock(mutex_);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindRepeated(request, by));
  if (repeated != nullptr) return repeated->operation;
  FULCRUM_RETURN_IF_ERROR(CheckName(request.spec().name()));
  FULCRUM_RETURN_IF_ERROR(campaigns_.CheckUploads(request.spec()));
  RemoveOld();
  const auto entry = std::make_shared<Entry>();
  entry->operation = NewOperation(v1::OPERATION_KIND_CREATE_CAMPAIGN, request.spec().name(), by);
  entry->request = request;
  // On disk before it is answered: a restart must not forget it.
  FULCRUM_RETURN_IF_ERROR(Save(*entry));
  entries_.emplace(entry->operation.name(), entry);
  queue_.push_back(entry);
  changed_.notify_one();
  return entry->operation;
}

std::string CampaignOperations::BeginAppend(const std::string& campaign, const std::string& by,
                                            std::function<void()> cancel) {
  const std::scoped_lock lock(mutex_);
  const auto entry = std::make_shared<Entry>();
  entry->operation = NewOperation(v1::OPERATION_KIND_APPEND_ITEMS, campaign, by);
  entry->operation.set_state(v1::OPERATION_STATE_RUNNING);
  entry->on_cancel = std::move(cancel);
  entries_.emplace(entry->operation.name(), entry);
  return entry->operation.name();
}

void CampaignOperations::NoteRows(const std::string& name, std::size_t rows) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end()) found->second->operation.set_rows_done(static_cast<std::int64_t>(rows));
}

void CampaignOperations::EndAppend(const std::string& name, const absl::StatusOr<std::int64_t>& added) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  Entry& entry = *found->second;
  entry.on_cancel = {};
  entry.operation.set_rows_done(added.value_or(0));
  NoteEnd(entry, added.status());
  RemoveOld();
}

absl::StatusOr<v1::Operation> CampaignOperations::Get(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second->operation;
  return absl::NotFoundError(
      absl::StrCat("there is no operation '", name.substr(0, 200), "'; operations are kept for a day after their end"));
}

std::vector<v1::Operation> CampaignOperations::List(const std::string& after, std::size_t most) const {
  std::vector<v1::Operation> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, entry] : entries_) all.push_back(entry->operation);
  }
  std::sort(all.begin(), all.end(), ComesBefore);
  const auto last = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name() == after; });
  if (last != all.end()) all.erase(all.begin(), last + 1);
  if (all.size() > most) all.resize(most);
  return all;
}

absl::StatusOr<v1::Operation> CampaignOperations::Cancel(const std::string& name) {
  std::shared_ptr<Entry> waiting;
  std::function<void()> on_cancel;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end() && !HasEnded(found->second->operation)) {
      found->second->cancelled = true;
      found->second->stop.request_stop();
      if (std::erase(queue_, found->second) > 0) waiting = found->second;
      on_cancel = found->second->on_cancel;
    }
  }
  if (on_cancel) on_cancel();
  if (waiting != nullptr) End(waiting, absl::CancelledError("cancelled before it began"));
  return Get(name);
}

void CampaignOperations::Loop(const std::stop_token& stop) {
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested()) return;
      entry = queue_.front();
      queue_.pop_front();
      entry->operation.set_state(v1::OPERATION_STATE_RUNNING);
    }
    Run(entry);
  }
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignOperations::CreateMarked(const std::shared_ptr<Entry>& entry) {
  const std::string& campaign = entry->operation.campaign();
  FULCRUM_ASSIGN_OR_RETURN(CrashMarker marker,
                           CrashMarker::Open(absl::StrCat(folder_, "/", entry->operation.name(), ".marker")));
  if (marker.gives_up() && !campaigns_.Contains(campaign)) {
    const std::int64_t deaths = marker.deaths();
    marker.End().IgnoreError();
    return absl::DataLossError(absl::StrCat("the process died ", deaths,
                                            " times in a row while it imported the pool of "
                                            "campaign '",
                                            campaign,
                                            "'; `fulcrum import` on a copy of the sources shows "
                                            "what is wrong with them, or whether they need more memory"));
  }
  // A creation that could not be marked is worth trying.
  marker.Begin(entry->operation.name()).IgnoreError();
  const ImportControl control{.stop = entry->stop.get_token(), .on_progress = [&](std::size_t rows) {
                                const std::scoped_lock lock(mutex_);
                                entry->operation.set_rows_done(static_cast<std::int64_t>(rows));
                              }};
  absl::StatusOr<std::shared_ptr<Campaign>> created = absl::InternalError("not created");
  const absl::Status status = RunGuarded([&] {
    created = campaigns_.Create(entry->request.spec(), control);
    return created.status();
  });
  if (!status.ok()) created = status;
  (entry->stop.stop_requested() ? marker.Cancel() : marker.End()).IgnoreError();
  // The process may have ended between the creation and the note of it.
  if (absl::IsAlreadyExists(created.status()) && campaigns_.Contains(campaign)) return campaigns_.Find(campaign);
  return created;
}

void CampaignOperations::Run(const std::shared_ptr<Entry>& entry) {
  End(entry, CreateMarked(entry));
}

void CampaignOperations::NoteEnd(Entry& entry, const absl::Status& status) {
  v1::Operation& operation = entry.operation;
  *operation.mutable_ended_at() = Now();
  if (status.ok()) {
    operation.set_state(v1::OPERATION_STATE_SUCCEEDED);
  } else {
    operation.set_state(entry.cancelled ? v1::OPERATION_STATE_CANCELLED : v1::OPERATION_STATE_FAILED);
    operation.mutable_error()->set_details(SerializeDetails(status));
    operation.mutable_error()->set_code(static_cast<int>(status.code()));
    operation.mutable_error()->set_message(PrintableText(std::string(status.message())));
  }
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarning, "operation ended",
      {{"operation", operation.name()},
       {"campaign", operation.campaign()},
       {"state", v1::OperationState_Name(operation.state())}});
}

void CampaignOperations::End(const std::shared_ptr<Entry>& entry,
                             const absl::StatusOr<std::shared_ptr<Campaign>>& created) {
  v1::Campaign result;
  if (created.ok()) result = (*created)->Describe();
  const std::scoped_lock lock(mutex_);
  v1::Operation& operation = entry->operation;
  if (!created.ok() && entry->stop.stop_requested() && !entry->cancelled) {
    // The process ends: the next one begins again.
    operation.set_state(v1::OPERATION_STATE_QUEUED);
    return;
  }
  if (created.ok()) {
    operation.set_rows_done(result.pool_rows());
    *operation.mutable_result() = std::move(result);
  }
  NoteEnd(*entry, created.status());
  if (const absl::Status saved = Save(*entry); !saved.ok()) {
    // It is run again after a restart, and finds the campaign or fails in the same way.
    Log(LogLevel::kWarning, "operation not saved",
        {{"operation", operation.name()}, {"reason", std::string(saved.message())}});
  }
}

}  // namespace fulcrum::pipeline
