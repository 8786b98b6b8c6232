#include "stages/ingest/column_pages.h"

#include <utility>

#include "arrow/io/interfaces.h"
#include "parquet/column_page.h"
#include "parquet/exception.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"

namespace fulcrum::ingest {
namespace {

class ColumnPages final : public parquet::PageReader {
 public:
  ColumnPages(const OpenParquetFile& file, int row_group, int leaf)
      : metadata_(file.reader->metadata()),
        chunk_(metadata_->RowGroup(row_group)->ColumnChunk(leaf)),
        column_(*metadata_->schema()->Column(leaf)),
        properties_(file.properties) {
    if (chunk_->crypto_metadata() != nullptr) throw parquet::ParquetException("the column is encrypted");
    PARQUET_ASSIGN_OR_THROW(const auto ranges, file.reader->GetReadRanges({row_group}, {leaf}));
    if (ranges.size() != 1) throw parquet::ParquetException("the column has no pages");
    stream_ = properties_.GetStream(file.input, ranges[0].offset, ranges[0].length);
    OpenPages();
  }

  std::shared_ptr<parquet::Page> NextPage() override {
    if (gave_dictionary_) OpenPages();
    std::shared_ptr<parquet::Page> page = pages_->NextPage();
    gave_dictionary_ = page != nullptr && page->type() == parquet::PageType::DICTIONARY_PAGE;
    return page;
  }

  void set_max_page_header_size(uint32_t size) override { pages_->set_max_page_header_size(size); }

 private:
  /// From where the stream is now: a page reader reads nothing ahead.
  void OpenPages() {
    // Files by old writers say of compressed pages that they are not.
    const bool always_compressed =
        metadata_->writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
    pages_ = parquet::PageReader::Open(stream_, chunk_->num_values(), chunk_->compression(), properties_, column_,
                                       always_compressed);
  }

  const std::shared_ptr<parquet::FileMetaData> metadata_;
  const std::unique_ptr<parquet::ColumnChunkMetaData> chunk_;
  const parquet::ColumnDescriptor& column_;
  parquet::ReaderProperties properties_;
  std::shared_ptr<parquet::ArrowInputStream> stream_;
  std::unique_ptr<parquet::PageReader> pages_;
  bool gave_dictionary_ = false;
};

}  // namespace

std::unique_ptr<parquet::PageReader> OpenColumnPages(const OpenParquetFile& file, int row_group, int leaf) {
  return std::make_unique<ColumnPages>(file, row_group, leaf);
}

}  // namespace fulcrum::ingest
