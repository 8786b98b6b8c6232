#include "storage/rules/model_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::storage {
namespace {

const std::optional<ModelTask>& TaskOf(Ledger& ledger) {
  return ledger.state().model_task();
}

std::int64_t ModelLeaseFingerprint(absl::string_view kind, const ModelLeaseRequest& request) {
  return Fingerprint({kind, absl::StrCat(request.lease), absl::StrCat(request.epoch)});
}

/// The lease of a request, live or not, as it was granted.
absl::StatusOr<Event> RequireModelGrant(Ledger& ledger, const ModelLeaseRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("process", request.process));
  const absl::StatusOr<Event> event = ledger.log().Find(request.lease);
  if (!event.ok() && !absl::IsNotFound(event.status())) return event.status();
  const auto* const granted = event.ok() ? std::get_if<ModelLeaseGranted>(&event->body) : nullptr;
  if (granted == nullptr || granted->epoch != request.epoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("there never was a lease ", request.lease, " with epoch ", request.epoch, " of a model task"));
  }
  if (event->annotator != request.process) {
    return absl::PermissionDeniedError(absl::StrCat("lease ", request.lease, " is that of another process"));
  }
  return event;
}

absl::Status RequireLiveModelLease(Ledger& ledger, const ModelLeaseRequest& request) {
  FULCRUM_RETURN_IF_ERROR(RequireModelGrant(ledger, request).status());
  if (TaskOf(ledger) && TaskOf(ledger)->lease == request.lease) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("lease ", request.lease, " (epoch ", request.epoch,
                                         ") of the model task has ended; acquire the task again. Predictions under it "
                                         "are still taken if no others have arrived"));
}

}  // namespace

absl::StatusOr<ModelTask> OpenModelTask(Ledger& ledger, const OpenModelTaskRequest& request) {
  const CampaignState& state = ledger.state();
  if (state.life() != Life::kRunning) return absl::AbortedError("the campaign does not run any more");
  if (state.rounds().open() != nullptr || request.round != state.rounds().count() + 1) {
    return absl::FailedPreconditionError(absl::StrCat("round ", request.round, " is not the next one"));
  }
  if (const auto& task = TaskOf(ledger); task && task->round == request.round) {
    if (task->open() || !task->closed.empty() || task->rows == request.rows) return *task;
  }
  FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = ModelTaskOpened{request.round, request.rows}}).status());
  return *TaskOf(ledger);
}

absl::StatusOr<bool> CloseModelTask(Ledger& ledger, const CloseModelTaskRequest& request) {
  const auto& task = TaskOf(ledger);
  if (!task || task->round != request.round || !task->open() || ledger.Now() < task->since + request.timeout) {
    return false;
  }
  FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = ModelTaskClosed{request.round, request.reason}}).status());
  return true;
}

absl::StatusOr<AcquireModelAnswer> AcquireModelTask(Ledger& ledger, const AcquireModelRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("process", request.process));
  const std::int64_t fingerprint = Fingerprint({"acquire model task"});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.process, request.request_id, fingerprint}));
  const auto& task = TaskOf(ledger);
  if (repeated.has_value()) {
    const auto* const granted = std::get_if<ModelLeaseGranted>(&repeated->body);
    const bool current =
        granted != nullptr && task && task->open() && task->id == request.task && task->id < repeated->sequence;
    // A lease of a task that is over by now is of no use to a process.
    if (!current) return AcquireModelAnswer{};
    return AcquireModelAnswer{repeated->sequence, granted->epoch, granted->expires_at, *task};
  }
  const bool free = task && task->open() && task->lease == 0 && task->id == request.task;
  if (!free || ledger.state().life() != Life::kRunning) return AcquireModelAnswer{};
  const ModelLeaseGranted grant{task->round, task->epoch + 1, ledger.Now() + request.lease_time};
  FULCRUM_ASSIGN_OR_RETURN(
      const std::int64_t lease,
      ledger.Append(
          {.annotator = request.process, .request_id = request.request_id, .fingerprint = fingerprint, .body = grant}));
  return AcquireModelAnswer{lease, grant.epoch, grant.expires_at, *TaskOf(ledger)};
}

absl::StatusOr<Time> RenewModelLease(Ledger& ledger, const ModelLeaseRequest& request) {
  const std::int64_t fingerprint = ModelLeaseFingerprint("renew model lease", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.process, request.request_id, fingerprint}));
  if (repeated.has_value()) {
    const auto* const renewed = std::get_if<ModelLeaseRenewed>(&repeated->body);
    return renewed == nullptr ? Time() : renewed->expires_at;
  }
  FULCRUM_RETURN_IF_ERROR(RequireLiveModelLease(ledger, request));
  const Time expires_at = std::max<Time>(TaskOf(ledger)->expires_at, ledger.Now() + request.lease_time);
  FULCRUM_RETURN_IF_ERROR(ledger
                              .Append({.annotator = request.process,
                                       .request_id = request.request_id,
                                       .fingerprint = fingerprint,
                                       .body = ModelLeaseRenewed{request.lease, request.epoch, expires_at}})
                              .status());
  return expires_at;
}

absl::StatusOr<std::int64_t> ReleaseModelLease(Ledger& ledger, const ModelLeaseRequest& request) {
  const std::int64_t fingerprint = ModelLeaseFingerprint("release model lease", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.process, request.request_id, fingerprint}));
  if (repeated.has_value()) return repeated->sequence;
  FULCRUM_RETURN_IF_ERROR(RequireLiveModelLease(ledger, request));
  return ledger.Append({.annotator = request.process,
                        .request_id = request.request_id,
                        .fingerprint = fingerprint,
                        .body = ModelLeaseEnded{request.lease, request.epoch, "released"}});
}

absl::StatusOr<std::optional<ModelTask>> FindModelTask(Ledger& ledger, const ModelLeaseRequest& request) {
  FULCRUM_RETURN_IF_ERROR(RequireModelGrant(ledger, request).status());
  const auto& task = TaskOf(ledger);
  if (task && task->open() && request.lease > task->id) return task;
  return std::nullopt;
}

absl::StatusOr<StorePredictionsAnswer> StorePredictions(Ledger& ledger, const StorePredictionsRequest& request) {
  const ModelLeaseRequest& lease = request.lease;
  const std::string checksums = absl::StrCat(request.checksum, request.features_checksum);
  const std::int64_t fingerprint =
      Fingerprint({"predictions", absl::StrCat(lease.lease), absl::StrCat(lease.epoch), checksums});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated, FindRepeated(ledger, {lease.process, lease.request_id, fingerprint}));
  if (repeated.has_value()) {
    const auto* const stored = std::get_if<PredictionsStored>(&repeated->body);
    return StorePredictionsAnswer{repeated->sequence, stored != nullptr && stored->late, true};
  }
  FULCRUM_ASSIGN_OR_RETURN(const std::optional<ModelTask> task, FindModelTask(ledger, lease));
  if (!task || request.file.empty()) {
    return absl::AbortedError(absl::StrCat("the model task of lease ", lease.lease,
                                           " is over: other predictions were stored, or its time was up; acquire the "
                                           "next one"));
  }
  const bool late = task->lease != lease.lease;
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence,
                           ledger.Append({.annotator = lease.process,
                                          .request_id = lease.request_id,
                                          .fingerprint = fingerprint,
                                          .body = PredictionsStored{.round = task->round,
                                                                    .lease = lease.lease,
                                                                    .epoch = lease.epoch,
                                                                    .file = request.file,
                                                                    .checksum = request.checksum,
                                                                    .late = late,
                                                                    .features_file = request.features_file,
                                                                    .features_checksum = request.features_checksum}}));
  return StorePredictionsAnswer{sequence, late, false};
}

absl::Status ExpireDueModelLease(Ledger& ledger) {
  const auto& task = TaskOf(ledger);
  if (!task || task->lease == 0 || task->expires_at > ledger.Now()) return absl::OkStatus();
  const ModelLeaseEnded ended{task->lease, task->epoch, "expired"};
  return ledger.Append({.annotator = task->process, .body = ended}).status();
}

}  // namespace fulcrum::storage
