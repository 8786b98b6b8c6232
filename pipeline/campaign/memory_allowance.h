// How the daemon's memory budget is divided among its campaigns.
//
// Pools stay in memory as long as their campaigns are there, so a pool that does not fit is refused. What pools leave
// is for rounds. How much a round may use is a figure of its campaign, fixed when that is made: it decides how scores
// are computed, and so must not depend on the other campaigns. If the rounds of several campaigns do not fit next to
// each other they wait for one another, in the order they came. What a campaign keeps between its rounds counts too,
// until another campaign needs the room. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

class MemoryBudgetShare {
  struct Claim;

 public:
  /// Below this no engine has room to work in.
  static constexpr std::size_t kLeastRoundBytes = std::size_t{32} << 20;

  /// `budget_bytes` for pools and rounds together; 0: no limit but the machine's.
  explicit MemoryBudgetShare(std::size_t budget_bytes);
  ~MemoryBudgetShare();

  /// A campaign's place in the budget; gives it back when it goes. Must not outlive the allowance.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place();

   private:
    friend class MemoryBudgetShare;
    Place(MemoryBudgetShare* allowance, Claim* claim) : allowance_(allowance), claim_(claim) {}
    MemoryBudgetShare* allowance_ = nullptr;
    Claim* claim_ = nullptr;
  };

  /// What the rounds of a campaign may use that does not say so itself: a part of the budget, whatever other campaigns
  /// there are. 0: no limit.
  std::size_t UsualRoundBytes() const;

  struct Request {
    std::string campaign = {};
    std::size_t pool_bytes = 0;
    std::size_t round_bytes = 0;
    /// Of a campaign that exists: it has a place even if its rounds do not fit any more, and cannot run them.
    bool exists = false;
    /// Another campaign waits for what this one keeps between its rounds: it should drop that and call GiveBack. Called
    /// on any thread; must not call back.
    std::function<void()> on_wanted = {};
  };
  /// ResourceExhausted if the pool does not fit next to the others with room for any one round; for a campaign that
  /// exists, with room for the least round.
  absl::StatusOr<Place> Admit(Request request);

  /// Whether rounds of this campaign may use so much. ResourceExhausted if that does not fit next to the pools.
  absl::Status CheckRound(const std::string& campaign, std::size_t round_bytes, const Place& place) const;
  /// From now on they use so much.
  void SetRound(std::size_t round_bytes, Place& place);

  /// The same for a pool that has become larger. If it does not fit, the place stays what it was.
  absl::Status Grow(const std::string& campaign, std::size_t pool_bytes, Place& place);

  /// Waits until there is room for a round of this campaign. Cancelled if `stop` was requested first,
  /// ResourceExhausted if the pools leave no room for it even when no other round runs.
  absl::Status BeginRound(Place& place, std::stop_token stop);
  /// For whom a round of this campaign waits: those that have the room, and those that are to have it first. Empty if
  /// it does not wait.
  std::vector<std::string> WaitsFor(const Place& place) const;
  /// The round is over; what it left for the next one may be wanted by others.
  void EndRound(Place& place);
  /// Nothing is kept any more. Not while a round runs.
  void GiveBack(Place& place);

 private:
  /// With this claim, whether it is one of the claims already or not.
  absl::Status CheckFits(const std::string& campaign, const Claim& claim) const;
  bool HasRoomFor(const Claim& claim) const;
  /// OK if the round of this claim fits next to the pools.
  absl::Status CheckOwnRound(const Claim& claim) const;
  /// Asks those who keep something and do not work.
  void AskForRoom() const;
  void Remove(const Claim* claim);

  const std::size_t budget_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::list<Claim> claims_;
  std::list<const Claim*> waiting_;  // for room, in the order they came
};

}  // namespace fulcrum::pipeline
