// Detects sanitizers, whose memory and files distort measurements of the process.
#pragma once

namespace fulcrum::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif

}  // namespace fulcrum::testing
