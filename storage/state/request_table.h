// Requests that took effect, so that none does twice.
//
// A request is known by two hashes of its annotator and its id: texts would take several times the memory. Requests
// from before the checkpoint are looked up in it. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event.h"

namespace fulcrum::storage {

class RequestTable {
 public:
  /// Notes the request of an event. DataLoss if it took effect before: a request may cause several events, but only
  /// consecutive ones.
  absl::Status Note(const Event& event);

  /// Sequence of the first event that a request caused.
  std::optional<std::int64_t> Find(absl::string_view annotator, absl::string_view request_id) const;
  std::optional<std::int64_t> Find(const RequestKey& key) const;
  std::size_t size() const { return base_count_ + requests_.size(); }
  /// Those that are in memory, in any order.
  void Visit(const std::function<void(const KnownRequest&)>& visit) const;

  /// The request of the last event; zeros if it had none.
  const RequestKey& last() const { return last_; }
  void ReadFrom(Checkpoint& base, std::size_t count, const RequestKey& last);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

  /// Requests that are not in the checkpoint's table yet. At most so many are taken, in the order of their keys.
  std::vector<KnownRequest> TakeNew(std::size_t most);
  void PutBack(const std::vector<KnownRequest>& requests);
  bool has_new() const { return !new_.empty(); }
  void ForgetNew() { new_.clear(); }

  /// RollBack undoes everything since Begin.
  void Begin();
  void RollBack();

 private:
  absl::flat_hash_map<RequestKey, std::int64_t> requests_;
  std::vector<KnownRequest> new_;
  RequestKey last_ = {};
  Checkpoint* base_ = nullptr;
  std::size_t base_count_ = 0;

  std::size_t new_before_ = 0;  ///< as it was at Begin, like the next one
  RequestKey last_before_ = {};
};

}  // namespace fulcrum::storage
