// Parquet files that lie: written byte by byte, each sound but for what one field of its headers claims, or what one
// page holds. A mutation seldom hits such a field; others' corpora of files that crashed readers are full of them.
#pragma once

#include <vector>

#include "tests/hostile/file_corpus.h"

namespace fulcrum::hostile {

/// The files that the lies are told about: eight rows of one feature, stored in every way that the lies need.
std::vector<CorpusFile> HonestParquet();

std::vector<CorpusFile> LyingParquet();

}  // namespace fulcrum::hostile
