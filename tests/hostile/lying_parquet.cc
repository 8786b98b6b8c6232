#include "tests/hostile/lying_parquet.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "tests/hostile/thrift_struct.h"

namespace fulcrum::hostile {
namespace {

constexpr std::int64_t kInt32Most = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kInt64Most = std::numeric_limits<std::int64_t>::max();
// The numbers that parquet.thrift gives them.
constexpr std::int64_t kFloat = 4, kOptional = 1, kZstd = 6, kPlain = 0, kRle = 3, kRleDictionary = 8, kDeltaPacked = 5,
                       kSplitStreams = 9, kDataPage = 0, kDictionaryPage = 2, kDataPageV2 = 3;

std::string Floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const float value = static_cast<float>(i) / 2;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

/// With its length before it, as levels are in pages of the first version.
std::string Counted(const std::string& bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + bytes;
}

/// A page's header says what it likes; sizes that are not set are the true ones.
struct Page {
  std::int64_t type = kDataPage;
  std::int64_t values = 8;
  std::int64_t encoding = kPlain;
  std::int64_t level_encoding = kRle;
  std::int64_t nulls = 0;  // of the second version, as all below
  std::int64_t rows = 8;
  std::int64_t definition_bytes = 0;
  std::int64_t repetition_bytes = 0;
  std::int64_t unpacked_bytes = -1;
  std::int64_t packed_bytes = -1;
  bool sizes_are_true = true;
  std::string bytes = Floats(8);

  std::string ToBytes() const {
    const auto size = static_cast<std::int64_t>(bytes.size());
    ThriftStruct header;
    header.Number(1, type, ThriftStruct::k32Bits);
    header.Number(2, sizes_are_true ? size : unpacked_bytes, ThriftStruct::k32Bits);
    header.Number(3, sizes_are_true ? size : packed_bytes, ThriftStruct::k32Bits);
    if (type == kDictionaryPage) {
      header.Struct(7, ThriftStruct().Number(1, values).Number(2, encoding));
    } else if (type == kDataPageV2) {
      header.Struct(8, ThriftStruct()
                           .Number(1, values)
                           .Number(2, nulls)
                           .Number(3, rows)
                           .Number(4, encoding)
                           .Number(5, definition_bytes)
                           .Number(6, repetition_bytes));
    } else {
      header.Struct(
          5, ThriftStruct().Number(1, values).Number(2, encoding).Number(3, level_encoding).Number(4, level_encoding));
    }
    return header.ToBytes() + bytes;
  }
};

/// A file with one column of one row group.
struct File {
  std::vector<Page> pages = {Page()};
  std::int64_t physical_type = kFloat;
  std::int64_t repetition = 0;
  std::int64_t children = 1;
  std::int64_t converted_type = -1;
  std::int64_t codec = 0;
  std::int64_t rows = 8;
  std::int64_t chunk_values = 8;
  std::int64_t group_bytes = 100;
  std::int64_t first_page = 4;
  std::int64_t added_to_chunk_bytes = 0;
  std::int64_t added_to_footer_bytes = 0;
  int groups = 1;

  std::string ToBytes() const {
    std::string body = "PAR1";
    for (const Page& page : pages) body += page.ToBytes();
    const std::string footer = Footer(static_cast<std::int64_t>(body.size()) - 4);
    const auto length = static_cast<std::uint32_t>(static_cast<std::int64_t>(footer.size()) + added_to_footer_bytes);
    return body + footer + std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + "PAR1";
  }

 private:
  std::string Footer(std::int64_t chunk_bytes) const {
    ThriftStruct root, column;
    root.Text(4, "schema").Number(5, children);
    column.Number(1, physical_type).Number(3, repetition).Text(4, "f0");
    if (converted_type >= 0) column.Number(6, converted_type);
    ThriftStruct chunk;
    chunk.Number(1, physical_type).Numbers(2, {kPlain, kRle}).Texts(3, {"f0"}).Number(4, codec);
    chunk.Number(5, chunk_values, ThriftStruct::k64Bits);
    chunk.Number(6, chunk_bytes + added_to_chunk_bytes, ThriftStruct::k64Bits);
    chunk.Number(7, chunk_bytes + added_to_chunk_bytes, ThriftStruct::k64Bits);
    chunk.Number(9, first_page, ThriftStruct::k64Bits);
    ThriftStruct group;
    group.Structs(1, {ThriftStruct().Number(2, 0, ThriftStruct::k64Bits).Struct(3, chunk)});
    group.Number(2, group_bytes, ThriftStruct::k64Bits).Number(3, rows, ThriftStruct::k64Bits);
    ThriftStruct file;
    file.Number(1, 1).Structs(2, {root, column}).Number(3, rows, ThriftStruct::k64Bits);
    return file.Structs(4, std::vector<ThriftStruct>(static_cast<std::size_t>(groups), group)).ToBytes();
  }
};

File WithNulls() {
  File file;
  file.repetition = kOptional;
  file.pages[0].bytes = Counted({'\x10', '\x01'}) + Floats(8);  // a run of eight ones
  return file;
}

File WithDictionary() {
  File file;
  Page dictionary, indices;
  dictionary.type = kDictionaryPage;
  indices.encoding = kRleDictionary;
  indices.bytes = {'\x03', '\x03', '\x88', '\xc6', '\xfa'};  // three bits each, eight of them: 0 to 7
  file.pages = {dictionary, indices};
  return file;
}

File SecondVersion() {
  File file;
  file.pages[0].type = kDataPageV2;
  return file;
}

struct Lie {
  const char* name;
  File (*about)();
  std::function<void(File&)> tell;
};

File Plain() {
  return {};
}

std::vector<Lie> LiesAboutPages() {
  std::vector<Lie> lies;
  for (const std::int64_t values : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7}, std::int64_t{9}, kInt32Most}) {
    for (File (*about)() : {Plain, WithNulls, WithDictionary, SecondVersion}) {
      lies.push_back({"page_values", about, [values](File& file) { file.pages.back().values = values; }});
    }
    lies.push_back({"dictionary_values", WithDictionary, [values](File& file) { file.pages[0].values = values; }});
    lies.push_back({"page_nulls", SecondVersion, [values](File& file) { file.pages[0].nulls = values; }});
    lies.push_back({"page_rows", SecondVersion, [values](File& file) { file.pages[0].rows = values; }});
    lies.push_back({"levels", SecondVersion, [values](File& file) { file.pages[0].definition_bytes = values; }});
    lies.push_back({"repetitions", SecondVersion, [values](File& file) { file.pages[0].repetition_bytes = values; }});
  }
  for (const std::int64_t size : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{31}, std::int64_t{33}, kInt32Most}) {
    for (const std::int64_t codec : {std::int64_t{0}, kZstd}) {
      lies.push_back({"unpacked_size", Plain, [size, codec](File& file) {
                        file.codec = codec;
                        file.pages[0].sizes_are_true = false;
                        file.pages[0].unpacked_bytes = size;
                        file.pages[0].packed_bytes = 32;
                      }});
      lies.push_back({"packed_size", Plain, [size, codec](File& file) {
                        file.codec = codec;
                        file.pages[0].sizes_are_true = false;
                        file.pages[0].unpacked_bytes = 32;
                        file.pages[0].packed_bytes = size;
                      }});
    }
  }
  for (const std::int64_t number :
       {kPlain, kDeltaPacked, kRleDictionary, kSplitStreams, std::int64_t{99}, kInt32Most}) {
    lies.push_back({"encoding", Plain, [number](File& file) { file.pages[0].encoding = number; }});
    lies.push_back({"index_encoding", WithDictionary, [number](File& file) { file.pages[1].encoding = number; }});
    lies.push_back({"dictionary_encoding", WithDictionary, [number](File& file) { file.pages[0].encoding = number; }});
    lies.push_back({"level_encoding", WithNulls, [number](File& file) { file.pages[0].level_encoding = number; }});
    lies.push_back({"page_type", Plain, [number](File& file) { file.pages[0].type = number; }});
  }
  return lies;
}

std::vector<Lie> LiesInsidePages() {
  std::vector<Lie> lies;
  // The width of indices, then runs of them that are empty, endless, or cut off.
  for (const std::string& indices : std::vector<std::string>{{},
                                                             {'\x00'},
                                                             {'\x00', '\x10', '\x00'},
                                                             {'\x21', '\x10', '\x00'},
                                                             {'\xff', '\x10', '\xff', '\xff', '\xff', '\xff'},
                                                             {'\x03', '\x00', '\x01'},
                                                             {'\x03', '\x10', '\xff'},
                                                             {'\x20', '\x10', '\xff', '\xff', '\xff', '\xff'},
                                                             {'\x03', '\xff', '\xff', '\xff', '\xff', '\x0f', '\x01'},
                                                             {'\x03', '\xfe', '\xff', '\xff', '\xff', '\x0f', '\x01'},
                                                             {'\x03', '\x03', '\x88'}}) {
    lies.push_back({"indices", WithDictionary, [indices](File& file) { file.pages[1].bytes = indices; }});
  }
  for (const std::string& levels : std::vector<std::string>{{},
                                                            {'\x10', '\x02'},
                                                            {'\x10', '\xff'},
                                                            {'\x00', '\x01'},
                                                            {'\x12', '\x01'},
                                                            {'\xfe', '\xff', '\xff', '\xff', '\x0f', '\x01'},
                                                            {'\x03'},
                                                            {'\x0e', '\x01'}}) {
    lies.push_back({"levels", WithNulls, [levels](File& file) { file.pages[0].bytes = Counted(levels) + Floats(8); }});
  }
  lies.push_back({"levels_size", WithNulls, [](File& file) { file.pages[0].bytes.replace(0, 4, 4, '\xff'); }});
  lies.push_back({"levels_only", WithNulls, [](File& file) { file.pages[0].bytes.resize(6); }});
  lies.push_back({"few_values", Plain, [](File& file) { file.pages[0].bytes.resize(30); }});
  lies.push_back({"no_dictionary", WithDictionary, [](File& file) { file.pages.erase(file.pages.begin()); }});
  lies.push_back(
      {"two_dictionaries", WithDictionary, [](File& file) { file.pages.insert(file.pages.begin(), file.pages[0]); }});
  lies.push_back({"dictionary_alone", WithDictionary, [](File& file) { file.pages.pop_back(); }});
  lies.push_back({"dictionary_last", WithDictionary, [](File& file) { std::swap(file.pages[0], file.pages[1]); }});
  lies.push_back({"no_pages", Plain, [](File& file) { file.pages.clear(); }});
  lies.push_back({"a_page_more", Plain, [](File& file) { file.pages.emplace_back(); }});
  return lies;
}

std::vector<Lie> LiesInTheFooter() {
  std::vector<Lie> lies;
  for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7}, std::int64_t{9},
                                    std::int64_t{100}, kInt32Most, kInt64Most, -kInt64Most}) {
    lies.push_back({"rows", Plain, [number](File& file) { file.rows = number; }});
    lies.push_back({"rows", WithNulls, [number](File& file) { file.rows = number; }});
    lies.push_back({"chunk_values", Plain, [number](File& file) { file.chunk_values = number; }});
    lies.push_back({"rows_and_values", Plain, [number](File& file) { file.rows = file.chunk_values = number; }});
    lies.push_back({"group_bytes", Plain, [number](File& file) { file.group_bytes = number; }});
    lies.push_back({"first_page", Plain, [number](File& file) { file.first_page = number; }});
    lies.push_back({"chunk_bytes", Plain, [number](File& file) { file.added_to_chunk_bytes = number / 2; }});
    lies.push_back(
        {"footer_bytes", Plain, [number](File& file) { file.added_to_footer_bytes = number % (1LL << 32); }});
    lies.push_back({"children", Plain, [number](File& file) { file.children = static_cast<std::int32_t>(number); }});
    lies.push_back({"codec", Plain, [number](File& file) { file.codec = static_cast<std::int32_t>(number); }});
    lies.push_back({"type", Plain, [number](File& file) { file.physical_type = static_cast<std::int32_t>(number); }});
    lies.push_back(
        {"repetition", Plain, [number](File& file) { file.repetition = static_cast<std::int32_t>(number); }});
    lies.push_back(
        {"meaning", Plain, [number](File& file) { file.converted_type = static_cast<std::int32_t>(number); }});
  }
  lies.push_back({"repeated", Plain, [](File& file) { file.repetition = 2; }});
  lies.push_back({"groups_share_pages", Plain, [](File& file) { file.groups = 1000; }});
  return lies;
}

}  // namespace

std::vector<CorpusFile> HonestParquet() {
  return {{"plain.parquet", Plain().ToBytes()},
          {"nulls.parquet", WithNulls().ToBytes()},
          {"dictionary.parquet", WithDictionary().ToBytes()},
          {"second_version.parquet", SecondVersion().ToBytes()}};
}

std::vector<CorpusFile> LyingParquet() {
  std::vector<CorpusFile> files;
  for (const auto& lies : {LiesAboutPages(), LiesInsidePages(), LiesInTheFooter()}) {
    for (const Lie& lie : lies) {
      File file = lie.about();
      lie.tell(file);
      files.push_back({std::to_string(files.size()).append("_").append(lie.name).append(".parquet"), file.ToBytes()});
    }
  }
  return files;
}

}  // namespace fulcrum::hostile
