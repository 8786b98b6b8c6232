// Text from elsewhere (payloads, names, messages) made safe for a terminal.
//
// What a pool holds may have been written by a stranger; control characters in it could move the cursor, retitle the
// window or answer for the person who looks. Stateless and thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace fulcrum::pipeline {

/// The text with every control character but line ends and tabs replaced by '?'.
std::string PrintableText(std::string_view text);

/// The same on one line: line ends and tabs become spaces.
std::string PrintableLine(std::string_view text);

}  // namespace fulcrum::pipeline
