#include "pipeline/text/text_sink.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "stages/ingest/formats/input_stream.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

/// What a reader of the file gets, which goes by the name's ending too.
std::string ContentOf(const std::string& path) {
  const auto stream = ingest::OpenInput(path, std::int64_t{1} << 30);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return (*stream)->Read(std::int64_t{1} << 24).ValueOrDie()->ToString();
}

TEST(TextSinkTest, CompressesByTheEndingOfTheName) {
  const testing::TemporaryDirectory folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&text, "row ", i, "\n");
  for (const char* name : {"out.csv", "out.csv.gz", "out.csv.zst"}) {
    const std::string path = folder.File(name);
    auto sink = OpenTextSink(path);
    ASSERT_TRUE(sink.ok()) << sink.status();
    ASSERT_TRUE((*sink)->Write(std::string_view(text).substr(0, 5)).ok());
    ASSERT_TRUE((*sink)->Write(std::string_view(text).substr(5)).ok());
    ASSERT_TRUE((*sink)->Finish().ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE((*sink)->Commit().ok());
    EXPECT_EQ(ContentOf(path), text) << name;
    const bool compressed = std::filesystem::file_size(path) < text.size() / 2;
    EXPECT_EQ(compressed, std::string(name) != "out.csv");
  }
}

TEST(PrintableTextTest, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(PrintableText("plain text\n\tcaf\xC3\xA9 \xF0\x9F\xA6\x89"), "plain text\n\tcaf\xC3\xA9 \xF0\x9F\xA6\x89");
  EXPECT_EQ(PrintableText(std::string_view("a\0b\x1b[2J\x7f\r", 9)), "a\\x00b\\x1b[2J\\x7f\\x0d");
  EXPECT_EQ(PrintableText("\xC2\x9B"
                          "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(PrintableText("caf\xE9!\xC3"), "caf\\xe9!\\xc3");
  EXPECT_EQ(PrintableLine("a\nb\tc\x1b"), "a b c\\x1b");
}

}  // namespace
}  // namespace fulcrum::pipeline
