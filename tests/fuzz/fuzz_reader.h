// What every fuzz target does: bytes as a file of a format, read as a pool with small limits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fulcrum::fuzz {

/// `ending` tells the reader. Aborts where the answer is neither an error nor a sound pool.
void ReadAsPool(const std::uint8_t* data, std::size_t size, const char* ending);

}  // namespace fulcrum::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
