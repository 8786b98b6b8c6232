// What cannot be looked at when a test runs under a sanitizer, whose own memory and files are the process's, too.
#pragma once

namespace fulcrum::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif

}  // namespace fulcrum::testing
