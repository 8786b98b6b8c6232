// Records the guarantees that a store gave, outside its process.
//
// The process under test sends an Entry through a pipe before every request and after every response; the reader of the
// pipe survives it. Check compares the entries with the rows of the log by naive bookkeeping, without using the state
// of the store. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fulcrum::testing {

enum class Request : std::int32_t { kAcquire, kSubmit, kSkip, kRenew, kRelease };

/// Small enough for atomic writes to a pipe.
struct Entry {
  enum class Kind : std::int32_t { kAsked, kAnswered, kRefused, kBroken };
  Kind kind = Kind::kAsked;
  Request request = Request::kAcquire;
  char annotator[16] = {};
  char id[32] = {};
  char item[32] = {};
  char value[32] = {};  ///< a label, or an error
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;  ///< in a response: of the event that the request caused
};

void Put(char* field, std::size_t size, const std::string& text);
template <std::size_t size>
void Put(char (&field)[size], const std::string& text) {
  Put(field, size, text);
}

class OutsideLedger {
 public:
  void Add(const Entry& entry);
  /// Requests without a response.
  const std::map<std::string, Entry>& unanswered() const { return unanswered_; }
  /// Responses, in order of arrival.
  const std::vector<Entry>& answers() const { return answers_; }

  /// Returns the violations in the log of a campaign; empty if there are none.
  std::vector<std::string> Check(const std::string& folder) const;

 private:
  std::map<std::string, Entry> unanswered_;  ///< by annotator and id
  std::vector<Entry> answers_;
  std::vector<std::string> broken_;
};

}  // namespace fulcrum::testing
