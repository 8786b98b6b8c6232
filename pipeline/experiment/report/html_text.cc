#include "pipeline/experiment/report/html_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace fulcrum::pipeline {

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Section(const std::string& anchor, const std::string& heading, const std::string& introduction,
                    const std::string& body) {
  const std::string lead = introduction.empty() ? "" : absl::StrCat("<p class=\"lead\">", introduction, "</p>\n");
  return absl::StrCat("<section id=\"", anchor, "\">\n<h2>", heading, "</h2>\n", lead, body, "</section>\n");
}

std::string TableRow(const std::string& tag, const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&row, "<", tag, ">", cell, "</", tag, ">");
  return row + "</tr>\n";
}

}  // namespace fulcrum::pipeline
