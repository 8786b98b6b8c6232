// Floods of HTTP/2 frames and of connections against a daemon, and how other clients fare meanwhile.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/daemon/support/daemon_process.h"

namespace fulcrum::testing {

struct Flood {
  std::string name = {};
  /// What one client sends to the port: some twenty thousand frames.
  std::function<void(int port)> send = {};
};

/// All kinds of floods.
const std::vector<Flood>& Floods();

struct FloodEffect {
  std::vector<double> existing = {};  ///< seconds of the calls of a client that was connected before
  std::vector<double> fresh = {};     ///< seconds of a first call on a new connection
  std::size_t growth_bytes = 0;       ///< of the daemon's memory, at most
};

/// Ten clients send the flood, up to twenty times and until the connected client has made so many calls. The daemon
/// must have a campaign "clouds", and no tokens. Fails the test if a call fails.
FloodEffect Endure(const DaemonProcess& daemon, const Flood& flood, std::size_t calls);

/// In milliseconds.
double Percentile99(std::vector<double> seconds);

}  // namespace fulcrum::testing
