// fuzz_corpus FOLDER: sound files of every format, a folder a fuzz target, for it to start from.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "tests/hostile/file_corpus.h"

namespace {

/// The target that reads files of this name; empty for none: compressed files only cost a fuzzer time.
std::string TargetOf(const std::string& name) {
  if (absl::EndsWith(name, ".parquet")) return "parquet";
  if (absl::EndsWith(name, ".arrow") || absl::EndsWith(name, ".arrows")) return "ipc";
  if (absl::EndsWith(name, ".csv")) return "csv";
  return absl::EndsWith(name, ".svm") ? "libsvm" : "";
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: fuzz_corpus FOLDER\n");
    return 64;
  }
  for (const fulcrum::hostile::CorpusFile& file : fulcrum::hostile::MakeCorpus()) {
    const std::string target = TargetOf(file.name);
    if (target.empty()) continue;
    const std::filesystem::path folder = std::filesystem::path(words[1]) / target;
    std::filesystem::create_directories(folder);
    std::ofstream out(folder / file.name, std::ios::binary);
    out << file.bytes;
    if (!out.flush()) {
      std::fprintf(stderr, "fuzz_corpus: cannot write '%s'\n", (folder / file.name).c_str());
      return 74;
    }
  }
}
