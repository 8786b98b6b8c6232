#include "tests/hostile/file_corpus.h"

#include <memory>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "arrow/builder.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/writer.h"
#include "arrow/table.h"
#include "arrow/util/compression.h"
#include "parquet/arrow/writer.h"
#include "stages/core/random.h"

namespace fulcrum::hostile {
namespace {

constexpr std::int64_t kRows = 200;

void Check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

struct Column {
  std::string name;
  std::shared_ptr<arrow::Array> array;
};

template <typename Builder, typename ValueOf>
std::shared_ptr<arrow::Array> Build(const ValueOf& value_of) {
  Builder builder;
  for (std::int64_t row = 0; row < kRows; ++row) Check(builder.Append(value_of(row)));
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> Texts() {
  return Build<arrow::StringBuilder>([](std::int64_t row) { return absl::StrCat("row number ", row * 7919 % 1000); });
}

std::shared_ptr<arrow::Array> Numbers() {
  return Build<arrow::DoubleBuilder>([](std::int64_t row) { return static_cast<double>(row % 17) / 3; });
}

std::shared_ptr<arrow::Array> Singles() {
  return Build<arrow::FloatBuilder>([](std::int64_t row) { return static_cast<float>(row) / 8; });
}

std::shared_ptr<arrow::Array> Integers() {
  return Build<arrow::Int64Builder>([](std::int64_t row) { return row * row; });
}

std::shared_ptr<arrow::Array> NullableDoubles() {
  arrow::Int32Builder builder;
  for (std::int64_t row = 0; row < kRows; ++row) {
    Check(row % 5 == 0 ? builder.AppendNull() : builder.Append(static_cast<std::int32_t>(row)));
  }
  return builder.Finish().ValueOrDie();
}

template <typename ElementBuilder>
std::shared_ptr<arrow::Array> Lists(std::int64_t length, bool fixed) {
  auto elements = std::make_shared<ElementBuilder>();
  std::unique_ptr<arrow::ArrayBuilder> lists;
  if (fixed) {
    lists = std::make_unique<arrow::FixedSizeListBuilder>(arrow::default_memory_pool(), elements,
                                                          static_cast<std::int32_t>(length));
  } else {
    lists = std::make_unique<arrow::ListBuilder>(arrow::default_memory_pool(), elements);
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    Check(fixed ? static_cast<arrow::FixedSizeListBuilder&>(*lists).Append()
                : static_cast<arrow::ListBuilder&>(*lists).Append());
    for (std::int64_t i = 0; i < length; ++i) {
      Check(elements->Append(static_cast<typename ElementBuilder::value_type>(row % 50 + i)));
    }
  }
  return lists->Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> Structs() {
  return arrow::StructArray::Make({Numbers(), Texts()}, {std::string("n"), std::string("t")}).ValueOrDie();
}

std::shared_ptr<arrow::Array> ListsOfLists() {
  auto elements = std::make_shared<arrow::FloatBuilder>();
  auto inner = std::make_shared<arrow::ListBuilder>(arrow::default_memory_pool(), elements);
  arrow::ListBuilder outer(arrow::default_memory_pool(), inner);
  for (std::int64_t row = 0; row < kRows; ++row) {
    Check(outer.Append());
    Check(inner->Append());
    Check(elements->Append(static_cast<float>(row)));
  }
  return outer.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> Dictionaries() {
  arrow::StringDictionaryBuilder builder;
  for (std::int64_t row = 0; row < kRows; ++row) Check(builder.Append(row % 3 == 0 ? "yes" : "no"));
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> TableOf(const std::vector<Column>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const Column& column : columns) {
    fields.push_back(arrow::field(column.name, column.array->type()));
    arrays.push_back(column.array);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

/// Each a form that features may have, and some that they may not.
std::vector<std::shared_ptr<arrow::Table>> Tables() {
  return {
      TableOf({{"id", Integers()}, {"label", Texts()}, {"a", Numbers()}, {"b", Singles()}}),
      TableOf({{"id", Texts()}, {"e", Lists<arrow::FloatBuilder>(4, false)}}),
      TableOf({{"label", Dictionaries()}, {"e", Lists<arrow::DoubleBuilder>(3, true)}, {"n", NullableDoubles()}}),
      TableOf({{"indices", Lists<arrow::Int32Builder>(3, false)}, {"values", Lists<arrow::FloatBuilder>(3, false)}}),
      TableOf({{"h", Lists<arrow::HalfFloatBuilder>(2, true)}, {"x", Singles()}}),
      TableOf({{"s", Structs()}, {"ll", ListsOfLists()}, {"x", Numbers()}}),
  };
}

std::string Finish(const std::shared_ptr<arrow::io::BufferOutputStream>& sink) {
  return sink->Finish().ValueOrDie()->ToString();
}

std::string ParquetOf(const arrow::Table& table, const std::shared_ptr<parquet::WriterProperties>& properties) {
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  Check(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), sink, kRows / 3, properties, arrow_properties));
  return Finish(sink);
}

void AddParquetByCodec(std::vector<CorpusFile>& corpus) {
  using arrow::Compression;
  int number = 0;
  for (const auto& table : Tables()) {
    for (const auto codec : {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP, Compression::ZSTD,
                             Compression::LZ4, Compression::BROTLI}) {
      auto builder = parquet::WriterProperties::Builder();
      builder.compression(codec)->data_pagesize(256);
      if (number % 2 == 0) builder.enable_page_checksum();
      if (number % 3 == 0) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
      if (number % 4 == 0) builder.disable_dictionary();
      corpus.push_back({absl::StrCat("codec", number++, ".parquet"), ParquetOf(*table, builder.build())});
    }
  }
}

void AddParquetByEncoding(std::vector<CorpusFile>& corpus) {
  using parquet::Encoding;
  const auto numbers = TableOf({{"id", Texts()}, {"a", Numbers()}, {"b", Singles()}, {"i", Integers()}});
  int number = 0;
  const auto add = [&](Encoding::type texts, Encoding::type floating, Encoding::type integers) {
    auto builder = parquet::WriterProperties::Builder();
    builder.disable_dictionary()->encoding("id", texts)->encoding("a", floating)->encoding("b", floating);
    builder.encoding("i", integers)->data_page_version(parquet::ParquetDataPageVersion::V2);
    corpus.push_back({absl::StrCat("encoding", number++, ".parquet"), ParquetOf(*numbers, builder.build())});
  };
  add(Encoding::PLAIN, Encoding::PLAIN, Encoding::PLAIN);
  add(Encoding::DELTA_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BINARY_PACKED);
  add(Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT, Encoding::BYTE_STREAM_SPLIT);
}

std::string IpcOf(const arrow::Table& table, bool file, arrow::Compression::type codec) {
  arrow::ipc::IpcWriteOptions options;
  options.unify_dictionaries = true;
  if (codec != arrow::Compression::UNCOMPRESSED) options.codec = arrow::util::Codec::Create(codec).ValueOrDie();
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto writer = file ? arrow::ipc::MakeFileWriter(sink, table.schema(), options).ValueOrDie()
                           : arrow::ipc::MakeStreamWriter(sink, table.schema(), options).ValueOrDie();
  Check(writer->WriteTable(table, 64));
  Check(writer->Close());
  return Finish(sink);
}

void AddIpc(std::vector<CorpusFile>& corpus) {
  int number = 0;
  for (const auto& table : Tables()) {
    for (const auto codec :
         {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME, arrow::Compression::ZSTD}) {
      corpus.push_back({absl::StrCat("file", number, ".arrow"), IpcOf(*table, true, codec)});
      corpus.push_back({absl::StrCat("stream", number++, ".arrows"), IpcOf(*table, false, codec)});
    }
  }
}

std::string Compressed(const std::string& text, arrow::Compression::type type) {
  const auto codec = arrow::util::Codec::Create(type).ValueOrDie();
  const auto* input = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  std::string output(static_cast<std::size_t>(codec->MaxCompressedLen(size, input)), '\0');
  const auto length = codec->Compress(size, input, static_cast<std::int64_t>(output.size()),
                                      reinterpret_cast<std::uint8_t*>(output.data()));
  output.resize(static_cast<std::size_t>(length.ValueOrDie()));
  return output;
}

void AddText(std::vector<CorpusFile>& corpus) {
  Random random(1);
  std::string csv = "id,label,f0,f1\n", quoted = "\xEF\xBB\xBF\"id\",\"a,b\"\r\n", svm = "# text\n";
  for (std::int64_t row = 0; row < kRows; ++row) {
    absl::StrAppend(&csv, "r", row, ",", row % 2 == 0 ? "yes" : "no", ",", random.Normal(), ",", row, "\n");
    absl::StrAppend(&quoted, "\"say \"\"", row, "\"\"\",", random.Uniform(), "\r\n");
    absl::StrAppend(&svm, row % 2 == 0 ? "+1" : "-1", " qid:", row, " 1:", random.Normal(), " ", 2 + row,
                    ":1e-3 # c\n");
  }
  for (const auto& [name, text] : {std::pair{"plain.csv", &csv}, std::pair{"quoted.csv", &quoted},
                                   std::pair{"text.svm", &svm}, std::pair{"text.libsvm", &svm}}) {
    corpus.push_back({name, *text});
    corpus.push_back({absl::StrCat(name, ".gz"), Compressed(*text, arrow::Compression::GZIP)});
    corpus.push_back({absl::StrCat(name, ".zst"), Compressed(*text, arrow::Compression::ZSTD)});
  }
}

}  // namespace

std::vector<CorpusFile> MakeCorpus() {
  std::vector<CorpusFile> corpus;
  AddParquetByCodec(corpus);
  AddParquetByEncoding(corpus);
  AddIpc(corpus);
  AddText(corpus);
  return corpus;
}

}  // namespace fulcrum::hostile
