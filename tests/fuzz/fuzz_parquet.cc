#include "tests/fuzz/fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fulcrum::fuzz::ReadAsPool(data, size, ".parquet");
  return 0;
}
