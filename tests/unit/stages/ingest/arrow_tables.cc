#include "tests/unit/stages/ingest/arrow_tables.h"

#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/writer.h"
#include "arrow/table.h"
#include "arrow/util/float16.h"
#include "parquet/arrow/writer.h"

namespace fulcrum::ingest {
namespace {

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> ArrayOf(const std::vector<T>& values) {
  Builder builder;
  for (const T& value : values) (void)builder.Append(value);
  return builder.Finish().ValueOrDie();
}

template <typename Builder, typename ElementBuilder, typename T>
std::shared_ptr<arrow::Array> ListsOf(Builder& builder, const std::vector<std::vector<T>>& lists) {
  auto& elements = static_cast<ElementBuilder&>(*builder.value_builder());
  for (const std::vector<T>& list : lists) {
    (void)builder.Append();
    for (const T& value : list) (void)elements.Append(value);
  }
  return builder.Finish().ValueOrDie();
}

/// Takes floats, so that half floats are made like the others.
class HalvingBuilder : public arrow::HalfFloatBuilder {
 public:
  arrow::Status Append(float value) { return arrow::HalfFloatBuilder::Append(arrow::util::Float16(value)); }
};

void WriteIpc(const arrow::Table& table, arrow::ipc::RecordBatchWriter& writer) {
  (void)writer.WriteTable(table);
  (void)writer.Close();
}

}  // namespace

std::shared_ptr<arrow::Array> Floats(const std::vector<float>& values) {
  return ArrayOf<arrow::FloatBuilder>(values);
}
std::shared_ptr<arrow::Array> Doubles(const std::vector<double>& values) {
  return ArrayOf<arrow::DoubleBuilder>(values);
}
std::shared_ptr<arrow::Array> Halves(const std::vector<float>& values) {
  return ArrayOf<HalvingBuilder>(values);
}
std::shared_ptr<arrow::Array> Integers(const std::vector<std::int64_t>& values) {
  return ArrayOf<arrow::Int64Builder>(values);
}
std::shared_ptr<arrow::Array> Texts(const std::vector<std::string>& values) {
  return ArrayOf<arrow::StringBuilder>(values);
}
std::shared_ptr<arrow::Array> FloatLists(const std::vector<std::vector<float>>& lists) {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  return ListsOf<arrow::ListBuilder, arrow::FloatBuilder>(builder, lists);
}
std::shared_ptr<arrow::Array> HalfLists(const std::vector<std::vector<float>>& lists) {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<HalvingBuilder>());
  return ListsOf<arrow::ListBuilder, HalvingBuilder>(builder, lists);
}
std::shared_ptr<arrow::Array> IndexLists(const std::vector<std::vector<std::int32_t>>& lists) {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::Int32Builder>());
  return ListsOf<arrow::ListBuilder, arrow::Int32Builder>(builder, lists);
}
std::shared_ptr<arrow::Array> FixedFloatLists(const std::vector<std::vector<float>>& lists) {
  arrow::FixedSizeListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>(),
                                      static_cast<std::int32_t>(lists[0].size()));
  return ListsOf<arrow::FixedSizeListBuilder, arrow::FloatBuilder>(builder, lists);
}

std::shared_ptr<arrow::Table> TableOf(const std::vector<NamedArray>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const NamedArray& column : columns) {
    fields.push_back(arrow::field(column.name, column.array->type()));
    arrays.push_back(column.array);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

void WriteParquetTo(const std::string& path, const arrow::Table& table, std::int64_t rows_per_group,
                    arrow::Compression::type codec) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder().compression(codec)->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  (void)parquet::arrow::WriteTable(table, arrow::default_memory_pool(), file, rows_per_group, properties,
                                   arrow_properties);
  (void)file->Close();
}

void WriteIpcFileTo(const std::string& path, const arrow::Table& table) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  WriteIpc(table, *arrow::ipc::MakeFileWriter(file, table.schema()).ValueOrDie());
  (void)file->Close();
}

std::string IpcStreamOf(const arrow::Table& table) {
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  WriteIpc(table, *arrow::ipc::MakeStreamWriter(sink, table.schema()).ValueOrDie());
  return sink->Finish().ValueOrDie()->ToString();
}

}  // namespace fulcrum::ingest
