#include "tests/daemon/line_reader.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fulcrum::testing {

LineReader::LineReader(int descriptor) : thread_([this, descriptor] { Read(descriptor); }) {}

void LineReader::Read(int descriptor) {
  std::FILE* const stream = fdopen(descriptor, "r");
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length; (length = getline(&line, &capacity, stream)) > 0;) {
    const std::scoped_lock lock(mutex_);
    lines_.emplace_back(line, static_cast<std::size_t>(length));
    arrived_.notify_one();
  }
  std::free(line);
  std::fclose(stream);
  const std::scoped_lock lock(mutex_);
  over_ = true;
  arrived_.notify_one();
}

std::optional<std::string> LineReader::Next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return over_ || !lines_.empty(); });
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

}  // namespace fulcrum::testing
