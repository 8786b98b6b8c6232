// A worker in a separate process, which can be killed: PORT CAMPAIGN ANNOTATOR FILE. Appends the sequence number of
// every acknowledged label to FILE before it requests more tasks.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const int file = open(arguments[4], O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  fulcrum::testing::DaemonClient client(std::atoi(arguments[1]), "");
  while (true) {
    const auto labels = fulcrum::testing::WorkUntilOver(client, arguments[2], arguments[3], 1);
    if (labels.empty()) return 0;
    std::string lines;
    for (const std::int64_t sequence : labels) absl::StrAppend(&lines, sequence, "\n");
    if (write(file, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) return 1;
  }
}
