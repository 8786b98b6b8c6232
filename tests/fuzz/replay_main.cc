// Without libFuzzer: gives the target every file that is named, and every file of a folder that is named.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz_reader.h"

namespace {

void Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(words[i])) {
      Replay(words[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(words[i])) {
      if (entry.is_regular_file()) Replay(entry.path());
    }
  }
}
