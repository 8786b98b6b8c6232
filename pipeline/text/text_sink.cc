#include "pipeline/text/text_sink.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/util/compression.h"
#include "arrow/util/utf8.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {
namespace {

class FileSink final : public TextSink {
 public:
  explicit FileSink(AtomicFile file) : file_(std::move(file)) {}
  absl::Status Write(std::string_view text) override { return file_.Write(text); }
  absl::Status Finish() override { return file_.Sync(); }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  AtomicFile file_;
};

class CompressedSink final : public TextSink {
 public:
  CompressedSink(AtomicFile file, std::unique_ptr<arrow::util::Codec> codec,
                 std::shared_ptr<arrow::util::Compressor> compressor)
      : file_(std::move(file)), codec_(std::move(codec)), compressor_(std::move(compressor)), buffer_(1 << 16) {}

  static absl::StatusOr<std::unique_ptr<TextSink>> Make(AtomicFile file, arrow::Compression::type type) {
    const std::string doing = absl::StrCat("cannot compress '", file.path(), "'");
    FULCRUM_ASSIGN_OR_RETURN(auto codec, ingest::FromArrow(arrow::util::Codec::Create(type), doing));
    FULCRUM_ASSIGN_OR_RETURN(auto compressor, ingest::FromArrow(codec->MakeCompressor(), doing));
    return std::make_unique<CompressedSink>(std::move(file), std::move(codec), std::move(compressor));
  }

  absl::Status Write(std::string_view text) override {
    while (!text.empty()) {
      FULCRUM_ASSIGN_OR_RETURN(
          const auto step,
          FromArrow(compressor_->Compress(static_cast<std::int64_t>(text.size()),
                                          reinterpret_cast<const std::uint8_t*>(text.data()), room(), buffer_.data())));
      text.remove_prefix(static_cast<std::size_t>(step.bytes_read));
      FULCRUM_RETURN_IF_ERROR(PassOn(step.bytes_written));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    for (bool again = true; again;) {
      FULCRUM_ASSIGN_OR_RETURN(const auto end, FromArrow(compressor_->End(room(), buffer_.data())));
      FULCRUM_RETURN_IF_ERROR(PassOn(end.bytes_written));
      again = end.should_retry;
    }
    return file_.Sync();
  }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  template <typename Value>
  absl::StatusOr<Value> FromArrow(arrow::Result<Value> result) const {
    return ingest::FromArrow(std::move(result), absl::StrCat("cannot compress '", file_.path(), "'"));
  }
  std::int64_t room() const { return static_cast<std::int64_t>(buffer_.size()); }
  absl::Status PassOn(std::int64_t bytes) {
    return file_.Write({reinterpret_cast<const char*>(buffer_.data()), static_cast<std::size_t>(bytes)});
  }

  AtomicFile file_;
  std::unique_ptr<arrow::util::Codec> codec_;
  std::shared_ptr<arrow::util::Compressor> compressor_;
  std::vector<std::uint8_t> buffer_;
};

class StandardOutputSink final : public TextSink {
 public:
  absl::Status Write(std::string_view text) override {
    buffer_.append(text);
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Finish();
  }

  absl::Status Finish() override {
    std::string_view left = buffer_;
    while (!left.empty()) {
      const ssize_t written = write(STDOUT_FILENO, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return absl::UnavailableError(absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
      }
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    buffer_.clear();
    return absl::OkStatus();
  }
  absl::Status Commit() override { return absl::OkStatus(); }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;
  std::string buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextSink>> OpenTextSink(const std::string& path) {
  if (path == "-") return std::make_unique<StandardOutputSink>();
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  if (const auto type = ingest::CompressionOfPath(path)) return CompressedSink::Make(std::move(file), *type);
  return std::make_unique<FileSink>(std::move(file));
}

namespace {

bool IsControl(unsigned char byte) {
  return byte < 0x20 || byte == 0x7F;
}

// U+0080 to U+009F, which some terminals obey like escape sequences, are C2 80 to C2 9F in UTF-8.
bool IsHighControl(std::string_view letter) {
  return letter.size() == 2 && letter[0] == '\xC2' && static_cast<unsigned char>(letter[1]) < 0xA0;
}

/// Bytes of the UTF-8 character that the text begins with; 0 if it does not begin with one.
std::size_t LengthOfFirst(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(text.size(), 4); ++length) {
    if (arrow::util::ValidateUTF8(text.substr(0, length))) return length;
  }
  return 0;
}

void AppendEscaped(std::string_view bytes, std::string& text) {
  for (const char byte : bytes)
    absl::StrAppend(&text, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
}

}  // namespace

std::string PrintableText(std::string_view text) {
  arrow::util::InitializeUTF8();
  std::string printable;
  while (!text.empty()) {
    const std::size_t length = LengthOfFirst(text);
    const std::string_view letter = text.substr(0, std::max<std::size_t>(length, 1));
    const bool control = IsControl(static_cast<unsigned char>(letter[0])) && letter != "\n" && letter != "\t";
    if (length == 0 || control || IsHighControl(letter)) {
      AppendEscaped(letter, printable);
    } else {
      printable.append(letter);
    }
    text.remove_prefix(letter.size());
  }
  return printable;
}

std::string PrintableLine(std::string_view text) {
  std::string line = PrintableText(text);
  for (char& letter : line) {
    if (letter == '\n' || letter == '\t') letter = ' ';
  }
  return line;
}

}  // namespace fulcrum::pipeline
