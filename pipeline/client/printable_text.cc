#include "pipeline/client/printable_text.h"

namespace fulcrum::pipeline {
namespace {

bool IsControl(unsigned char byte) {
  return byte < 0x20 || byte == 0x7F;
}

// U+0080 to U+009F, which some terminals obey like escape sequences, are C2 80 to C2 9F in UTF-8.
bool StartsHighControl(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0;
}

}  // namespace

std::string PrintableText(std::string_view text) {
  std::string printable;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (StartsHighControl(text.substr(i))) {
      printable.push_back('?');
      ++i;
    } else if (IsControl(static_cast<unsigned char>(text[i])) && text[i] != '\n' && text[i] != '\t') {
      printable.push_back('?');
    } else {
      printable.push_back(text[i]);
    }
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
