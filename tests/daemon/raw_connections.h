// Connections of somebody who does not speak gRPC: they come, say a few bytes or none, and stay.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fulcrum::testing {

class RawConnections {
 public:
  explicit RawConnections(int port) : port_(port) {}
  ~RawConnections() { CloseAll(); }
  RawConnections(const RawConnections&) = delete;
  RawConnections& operator=(const RawConnections&) = delete;

  /// As many of `wanted` as this process may have, its limit raised as far as the system lets it.
  static std::size_t MostPossible(std::size_t wanted);

  /// Connects and says this; what the other side does about it is its own business.
  void Open(const std::string& greeting);
  void CloseAll();
  /// Sends more on one of the connections. False if the other side has closed it.
  bool Send(std::size_t index, const std::string& bytes) const;
  /// Everything that the other side sends on it until it closes it.
  std::string ReadAll(std::size_t index) const;
  int descriptor(std::size_t index) const { return descriptors_[index]; }
  /// Connected so far, whether the other side has closed them since or not.
  std::size_t size() const { return descriptors_.size(); }

 private:
  const int port_;
  std::vector<int> descriptors_;
};

}  // namespace fulcrum::testing
