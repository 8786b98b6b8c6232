// The processes that compute one round together, and what they exchange.
//
// A pool may be spread over several processes (ranks), each with its own rows. What crosses between them goes through
// this interface, so that the numerical stages know neither MPI nor a network: over MPI (pipeline/cluster), between
// threads in tests, and OneProcess(), which exchanges nothing and costs nothing.
//
// Every rank makes the same calls in the same order, from one thread. A call throws PeerFailed if another rank has
// failed. Rank 0 is the root.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum {

/// Another rank has failed; this one ends too, and says nothing.
class PeerFailed final : public std::exception {
 public:
  const char* what() const noexcept override { return "another rank has failed"; }
};

class Communicator {
 public:
  static constexpr int kRoot = 0;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The machine that this rank runs on, for messages.
  virtual std::string host() const = 0;

  /// The bytes of every rank, in the order of the ranks, at the root; nothing elsewhere.
  virtual std::vector<std::string> Gather(std::string bytes) const = 0;
  /// Every rank has the bytes of `from` afterwards.
  virtual void Broadcast(std::string& bytes, int from = kRoot) const = 0;
  /// The root has the element-wise sums afterwards; the other ranks keep what they had. The order of the additions is
  /// not defined: use it for sums that are exact (ExactTerms).
  virtual void ReduceSum(std::span<double> values) const = 0;
  /// Returns when every rank has called it.
  virtual void Barrier() const = 0;

  /// What this rank has sent so far.
  virtual std::uint64_t bytes_sent() const { return 0; }

  /// AgreeOn reports here what the ranks agreed on, so that an error that a rank has by itself can be told from one
  /// that all of them know.
  virtual void NoteAgreement(const absl::Status&) const {}

  bool is_root() const { return rank() == kRoot; }
  bool is_alone() const { return size() == 1; }
};

/// One process that has the whole pool.
const Communicator& OneProcess();

/// The first error of any rank, by rank, with the rank and its host in the message; OK if all are OK. The same on every
/// rank.
absl::Status AgreeOn(const Communicator& peers, const absl::Status& status);

// Plain values instead of bytes.

template <typename T>
std::string BytesOf(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

template <typename T>
void AppendFrom(const std::string& bytes, std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t before = values.size();
  values.resize(before + bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data() + before, bytes.data(), bytes.size());
}

/// Every rank has the values of the root afterwards; their number may differ before.
template <typename T>
void BroadcastValues(const Communicator& peers, std::vector<T>& values, int from = Communicator::kRoot) {
  if (peers.is_alone()) return;
  std::string bytes = peers.rank() == from ? BytesOf(std::span<const T>(values)) : std::string();
  peers.Broadcast(bytes, from);
  values.clear();
  AppendFrom(bytes, values);
}

template <typename T>
T BroadcastValue(const Communicator& peers, T value, int from = Communicator::kRoot) {
  std::vector<T> values(1, value);
  BroadcastValues(peers, values, from);
  return values[0];
}

/// The values of all ranks, one rank after the other, at the root; nothing elsewhere.
template <typename T>
std::vector<T> GatherValues(const Communicator& peers, std::vector<T> values) {
  if (peers.is_alone()) return values;
  std::vector<T> all;
  for (const std::string& bytes : peers.Gather(BytesOf(std::span<const T>(values)))) AppendFrom(bytes, all);
  return all;
}

/// The same on every rank.
template <typename T>
std::vector<T> ShareValues(const Communicator& peers, std::vector<T> values) {
  std::vector<T> all = GatherValues(peers, std::move(values));
  BroadcastValues(peers, all);
  return all;
}

/// One value of each rank, by rank, on every rank.
template <typename T>
std::vector<T> ShareValue(const Communicator& peers, T value) {
  return ShareValues(peers, std::vector<T>(1, value));
}

// Sums that do not depend on the order of their terms, nor on how many processes add them up.
//
// Floating-point addition rounds, so the order matters. If every term is first rounded to a multiple of one quantum,
// and the quantum is at least 2^-52 of a bound on all partial sums, then additions are exact in any order. The quantum
// is so far below the bound that rounding the terms costs less than float32 kernel values are off by. Plain values,
// thread-safe.

class ExactTerms {
 public:
  /// `bound` is at least the sum of the magnitudes of all terms. Sums are as usual if it is not positive and finite.
  explicit ExactTerms(double bound) {
    if (!(bound > 0) || !std::isfinite(bound)) return;
    int exponent = 0;
    std::frexp(bound, &exponent);
    // Adding 1.5 times 2^52 quanta leaves no bits below the quantum; subtracting it again is exact.
    shift_ = std::ldexp(1.5, exponent + 1);
    if (!std::isfinite(shift_)) shift_ = 0;
  }

  /// The multiple of the quantum next to `value`.
  double operator()(double value) const { return (value + shift_) - shift_; }

 private:
  double shift_ = 0;
};

// How the rows of a pool are divided among the processes of a cluster.
//
// A rank has consecutive rows, and shares begin at multiples of a unit that depends on the size of the pool alone. Sums
// over rows are formed within units first, so that they do not depend on the number of ranks. Pure functions,
// thread-safe.

/// The rows of a unit: few enough for even shares, and so many that a unit is worth a matrix product.
inline std::size_t RowsPerUnit(std::size_t total) {
  constexpr std::size_t kFewest = 512, kMost = 8192, kUnits = 64;
  return std::clamp(std::bit_floor(total / kUnits), kFewest, kMost);
}

struct RowShare {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t total = 0;  ///< rows of the pool
};

/// The share of a rank; empty if there are more ranks than units.
inline RowShare ShareOfRank(std::size_t total, std::size_t rank, std::size_t ranks) {
  const std::size_t unit = RowsPerUnit(total), units = (total + unit - 1) / unit;
  const std::size_t first = std::min(total, units * rank / ranks * unit);
  const std::size_t end = std::min(total, units * (rank + 1) / ranks * unit);
  return {.first = first, .count = end - first, .total = total};
}

}  // namespace fulcrum
