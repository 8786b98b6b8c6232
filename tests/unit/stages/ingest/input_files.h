// Files as the tests of readers need them.
#pragma once

#include <string>

#include "arrow/util/compression.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::ingest {

/// Writes `content`, compressed, and returns the path.
inline std::string WriteCompressed(const testing::TemporaryDirectory& folder, const std::string& name,
                                   const std::string& content, arrow::Compression::type type) {
  const auto codec = arrow::util::Codec::Create(type).ValueOrDie();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(content.data());
  const auto size = static_cast<std::int64_t>(content.size());
  std::string compressed(static_cast<std::size_t>(codec->MaxCompressedLen(size, bytes)), '\0');
  auto* output = reinterpret_cast<std::uint8_t*>(compressed.data());
  const std::int64_t length =
      codec->Compress(size, bytes, static_cast<std::int64_t>(compressed.size()), output).ValueOrDie();
  compressed.resize(static_cast<std::size_t>(length));
  return folder.Write(name, compressed);
}

}  // namespace fulcrum::ingest
