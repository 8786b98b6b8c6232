#include "storage/state/tables.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/number_text.h"
#include "storage/checkpoint/checkpoint.h"

namespace fulcrum::storage {
namespace {

/// A hash that is the same in every process, since it is stored.
std::uint64_t Hash(absl::string_view first, absl::string_view second, std::uint64_t seed, std::uint64_t factor) {
  std::uint64_t state = seed;
  const auto add = [&](std::uint64_t word) {
    state = (state ^ word) * factor;
    state ^= state >> 29;
  };
  for (const absl::string_view text : {first, second}) {
    add(text.size());
    for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min(sizeof(word), text.size() - i));
      add(word);
    }
  }
  add(seed);
  return state;
}

RequestKey KeyOf(absl::string_view annotator, absl::string_view request_id) {
  return {Hash(annotator, request_id, 0x243F6A8885A308D3ULL, 0x9E3779B97F4A7C15ULL),
          Hash(request_id, annotator, 0x13198A2E03707344ULL, 0xD6E8FEB86659FD93ULL)};
}

}  // namespace

absl::Status RequestTable::Note(const Event& event) {
  if (event.request_id.empty()) {
    last_ = {};
    return absl::OkStatus();
  }
  const RequestKey key = KeyOf(event.annotator, event.request_id);
  if (key == last_) return absl::OkStatus();
  const bool repeated = Find(key).has_value();
  last_ = key;
  if (repeated) {
    return absl::DataLossError(
        absl::StrCat("request '", event.request_id, "' of '", event.annotator, "' took effect before"));
  }
  requests_.emplace(key, event.sequence);
  new_.push_back({key, event.sequence});
  return absl::OkStatus();
}

std::optional<std::int64_t> RequestTable::Find(absl::string_view annotator, absl::string_view request_id) const {
  return Find(KeyOf(annotator, request_id));
}

std::optional<std::int64_t> RequestTable::Find(const RequestKey& key) const {
  const auto found = requests_.find(key);
  if (found != requests_.end()) return found->second;
  return base_count_ == 0 ? std::nullopt : base_->FindRequest(key);
}

void RequestTable::Visit(const std::function<void(const KnownRequest&)>& visit) const {
  for (const auto& [key, sequence] : requests_) visit({key, sequence});
}

void RequestTable::ReadFrom(Checkpoint& base, std::size_t count, const RequestKey& last) {
  base_ = &base;
  base_count_ = count;
  last_ = last;
}

void RequestTable::LoadAll() {
  if (base_ == nullptr) return;
  base_->VisitRequests([this](const KnownRequest& request) { requests_.emplace(request.key, request.sequence); });
  base_ = nullptr;
  base_count_ = 0;
}

std::vector<KnownRequest> RequestTable::TakeNew(std::size_t most) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, new_.size()));
  std::vector<KnownRequest> taken(new_.end() - count, new_.end());
  new_.resize(new_.size() - taken.size());
  std::sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return taken;
}

void RequestTable::PutBack(const std::vector<KnownRequest>& requests) {
  new_.insert(new_.end(), requests.begin(), requests.end());
}

void RequestTable::Begin() {
  new_before_ = new_.size();
  last_before_ = last_;
}

void RequestTable::RollBack() {
  for (std::size_t i = new_before_; i < new_.size(); ++i) requests_.erase(new_[i].key);
  new_.resize(new_before_);
  last_ = last_before_;
}

AnnotatorActivity& AnnotatorActivity::operator+=(const AnnotatorActivity& more) {
  answers += more.answers;
  skips += more.skips;
  expired += more.expired;
  cost += more.cost;
  timed += more.timed;
  micros += more.micros;
  return *this;
}

AnnotatorActivity ActivityTable::Of(absl::string_view annotator) const {
  const auto found = activities_.find(std::string(annotator));
  return found == activities_.end() ? AnnotatorActivity() : found->second;
}

void ActivityTable::Add(const std::string& annotator, const AnnotatorActivity& more) {
  const auto [place, is_new] = activities_.try_emplace(annotator);
  if (keeps_) before_.emplace_back(annotator, is_new ? std::nullopt : std::optional(place->second));
  place->second += more;
  total_ += more;
}

void ActivityTable::KeepWork(const std::string& annotator) {
  if (!keeps_) return;
  const auto found = work_.find(annotator);
  work_before_.emplace_back(annotator, found == work_.end() ? std::nullopt : std::optional(found->second));
}

void ActivityTable::StartWork(const std::string& annotator, Time at) {
  KeepWork(annotator);
  work_.try_emplace(annotator, at);
}

void ActivityTable::EndWork(const std::string& annotator, Time at, bool more_tasks) {
  KeepWork(annotator);
  if (more_tasks) {
    work_[annotator] = at;
  } else {
    work_.erase(annotator);
  }
}

std::optional<std::chrono::microseconds> ActivityTable::WorkTime(absl::string_view annotator, Time at,
                                                                 std::chrono::microseconds most) const {
  constexpr std::int64_t kLeastTimed = 10, kMostTimesMean = 10;
  const auto found = work_.find(std::string(annotator));
  if (found == work_.end()) return std::nullopt;
  if (total_.timed >= kLeastTimed) {
    most = std::min(most, std::chrono::microseconds(kMostTimesMean * (total_.micros / total_.timed)));
  }
  return std::clamp(std::chrono::microseconds(at - found->second), std::chrono::microseconds(0), most);
}

void ActivityTable::Shift(std::chrono::microseconds gap) {
  for (auto& [annotator, since] : work_) since += gap;
}

void ActivityTable::Begin() {
  keeps_ = true;
  work_before_.clear();
  before_.clear();
  total_before_ = total_;
}

void ActivityTable::Accept() {
  keeps_ = false;
  work_before_.clear();
  before_.clear();
}

void ActivityTable::RollBack() {
  for (auto kept = before_.rbegin(); kept != before_.rend(); ++kept) {
    if (kept->second) {
      activities_[kept->first] = *kept->second;
    } else {
      activities_.erase(kept->first);
    }
  }
  for (auto kept = work_before_.rbegin(); kept != work_before_.rend(); ++kept) {
    if (kept->second) {
      work_[kept->first] = *kept->second;
    } else {
      work_.erase(kept->first);
    }
  }
  total_ = total_before_;
  Accept();
}

std::string ActivityTable::ToText() const {
  JsonRows rows;
  for (const auto& [name, activity] : activities_) {
    rows.Row().Add(name).Add(activity.answers).Add(activity.skips).Add(activity.expired).Add(activity.cost);
    rows.Add(activity.timed).Add(activity.micros);
  }
  return rows.Take();
}

std::string ActivityTable::WorkToText() const {
  JsonRows rows;
  for (const auto& [name, since] : work_) rows.Row().Add(name).Add(ToMicros(since));
  return rows.Take();
}

absl::Status ActivityTable::ReadWork(const std::vector<std::vector<std::string>>& rows) {
  for (const std::vector<std::string>& cells : rows) {
    std::int64_t micros = 0;
    if (cells.size() != 2 || !absl::SimpleAtoi(cells[1], &micros)) {
      return absl::DataLossError("what the annotators are working on is damaged in the checkpoint");
    }
    work_[cells[0]] = FromMicros(micros);
  }
  return absl::OkStatus();
}

absl::StatusOr<ActivityTable> ActivityTable::FromRows(const std::vector<std::vector<std::string>>& rows) {
  ActivityTable table;
  for (const std::vector<std::string>& cells : rows) {
    AnnotatorActivity activity;
    const auto cost = cells.size() == 7 ? ParseNumber(cells[4]) : std::nullopt;
    if (!cost || !absl::SimpleAtoi(cells[1], &activity.answers) || !absl::SimpleAtoi(cells[2], &activity.skips) ||
        !absl::SimpleAtoi(cells[3], &activity.expired) || !absl::SimpleAtoi(cells[5], &activity.timed) ||
        !absl::SimpleAtoi(cells[6], &activity.micros)) {
      return absl::DataLossError("what the annotators have done is damaged in the checkpoint");
    }
    activity.cost = *cost;
    table.activities_[cells[0]] = activity;
    table.total_ += activity;
  }
  return table;
}

}  // namespace fulcrum::storage
