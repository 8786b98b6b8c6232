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
  /// Connected so far, whether the other side has closed them since or not.
  std::size_t size() const { return descriptors_.size(); }

 private:
  const int port_;
  std::vector<int> descriptors_;
};

}  // namespace fulcrum::testing
