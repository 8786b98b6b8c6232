// Frames of HTTP/2 as bytes, for those who attack a server below gRPC. Plain functions.
#pragma once

#include <cstdint>
#include <string>

namespace fulcrum::testing {

inline const std::string kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift & 0xff));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift & 0xff));
  return frame + payload;
}

/// HEADERS of a gRPC call: all header fields, and no message yet.
inline std::string RequestFrame(std::uint32_t stream, const std::string& path) {
  const auto text = [](const std::string& value) { return static_cast<char>(value.size()) + value; };
  const std::string fields = std::string("\x83\x86") + "\x04" + text(path) + "\x01" + text("localhost") + "\x0f\x10" +
                             text("application/grpc") + std::string(1, '\0') + text("te") + text("trailers");
  return Frame(1, 0x4, stream, fields);
}

inline std::string ResetFrame(std::uint32_t stream) {
  return Frame(3, 0, stream, std::string("\0\0\0\x08", 4));
}

}  // namespace fulcrum::testing
