// Connections that do not use gRPC: they send a few bytes or none, and stay open.
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

  /// Returns how many of `wanted` connections this process can open, after raising its limit as far as possible.
  static std::size_t MostPossible(std::size_t wanted);

  /// Connects and sends the text; ignores what the other side does.
  void Open(const std::string& greeting);
  void CloseAll();
  /// Sends more on one of the connections. False if the other side has closed it.
  bool Send(std::size_t index, const std::string& bytes) const;
  /// Everything that the other side sends on it until it closes it.
  std::string ReadAll(std::size_t index) const;
  int descriptor(std::size_t index) const { return descriptors_[index]; }
  /// The number of connections opened so far, including those closed by the other side.
  std::size_t size() const { return descriptors_.size(); }

 private:
  const int port_;
  std::vector<int> descriptors_;
};

}  // namespace fulcrum::testing
