// Small pieces of HTML. Pure functions, thread-safe.
#pragma once

#include <string>
#include <vector>

namespace fulcrum::pipeline {

/// Text that means itself inside an element or a quoted attribute.
std::string EscapeHtml(const std::string& text);

/// A section of the page with a heading, an anchor and an introduction (HTML).
std::string Section(const std::string& anchor, const std::string& heading, const std::string& introduction,
                    const std::string& body);

/// A row of a table; `tag` is td or th.
std::string TableRow(const std::string& tag, const std::vector<std::string>& cells);

}  // namespace fulcrum::pipeline
