// What a store promised, written down outside the process that promised it.
//
// The process under test sends an Entry through a pipe before every request and after every answer; whoever reads the
// pipe outlives it. Check compares the promises with what is on disk, by naive bookkeeping over the rows of the log:
// nothing of the store's own state is asked. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fulcrum::testing {

enum class Request : std::int32_t { kAcquire, kSubmit, kSkip, kRenew, kRelease };

/// Small enough for a pipe to take it whole or not at all.
struct Entry {
  enum class Kind : std::int32_t { kAsked, kAnswered, kRefused, kBroken };
  Kind kind = Kind::kAsked;
  Request request = Request::kAcquire;
  char annotator[16] = {};
  char id[32] = {};
  char item[32] = {};
  char value[32] = {};  ///< a label, or what is broken
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;  ///< in an answer: of the event that the request caused
};

void Put(char* field, std::size_t size, const std::string& text);
template <std::size_t size>
void Put(char (&field)[size], const std::string& text) {
  Put(field, size, text);
}

class OutsideLedger {
 public:
  void Add(const Entry& entry);
  /// Requests that were asked and never answered.
  const std::map<std::string, Entry>& unanswered() const { return unanswered_; }
  /// Answers, in the order they came.
  const std::vector<Entry>& answers() const { return answers_; }

  /// What is wrong with a campaign's log in view of these promises; empty where nothing is.
  std::vector<std::string> Check(const std::string& folder) const;

 private:
  std::map<std::string, Entry> unanswered_;  ///< by annotator and id
  std::vector<Entry> answers_;
  std::vector<std::string> broken_;
};

}  // namespace fulcrum::testing
