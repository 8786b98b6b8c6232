// Sound files of every format that the readers know, with every codec, encoding and nesting that Arrow writes: what
// damage is done to.
#pragma once

#include <string>
#include <vector>

namespace fulcrum::hostile {

struct CorpusFile {
  std::string name;  ///< with the ending that tells the reader
  std::string bytes;
};

std::vector<CorpusFile> MakeCorpus();

}  // namespace fulcrum::hostile
