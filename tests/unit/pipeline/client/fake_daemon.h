// A server of fulcrum.v1 for tests of its clients: a ledger instead of a store, and answers that get lost on request.
//
// Written from the .proto files alone. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fulcrum::testing {

struct FakeDaemonOptions {
  int items = 10;  ///< named "0", "1", ...
  std::vector<std::string> classes = {"neg", "pos"};
  /// So many answers to each request are lost after the request has taken effect: the caller sees UNAVAILABLE.
  int lost_answers = 0;
  std::string token = {};  ///< that every call must show, where it is not empty
  /// Streams of WatchCampaign, one after the other: CampaignEvents in protobuf's text format. All but the last break.
  std::vector<std::vector<std::string>> watch = {};
};

/// What the daemon has on its books.
struct FakeLedger {
  std::map<std::string, std::vector<std::string>> values_of_item;  ///< labels, by item, in order
  std::map<std::string, std::string> skips;                        ///< reason by item
  std::map<std::string, int> calls_of_request;                     ///< how often each request id came
  std::vector<std::string> errors;                                 ///< what no client should ever do
  std::vector<std::string> calls;                                  ///< "AcquireTasks", "StartCampaign digits"
  std::map<std::string, std::string> imported;
  std::string import_source;
  int released = 0;
  int renewed = 0;
};

class FakeDaemon {
 public:
  explicit FakeDaemon(FakeDaemonOptions options = {});
  ~FakeDaemon();

  std::string address() const;
  FakeLedger ledger() const;
  /// Offers every leased task again.
  void ExpireLeases();
  /// Adds a campaign in protobuf's text format.
  void AddCampaign(const std::string& text);

 private:
  struct Books;
  class Labeling;
  class Campaigns;
  class Operations;
  struct Server;
  const std::shared_ptr<Books> books_;
  const std::unique_ptr<Server> server_;
};

struct ProgramResult {
  int exit_code = -1;
  std::string output;
  std::string errors;
};

/// Runs the program's command line in this process.
ProgramResult RunFulcrum(std::vector<std::string> words);

}  // namespace fulcrum::testing
