// Large pools and a daemon at work: what it costs to append rows to one, and how long a Get takes while others are
// created.
//
//   bench_growth                     both
//   bench_growth --append            10,000 rows to a pool of FULCRUM_GROWTH_ROWS (5,000,000)
//   bench_growth --lanes             Get during four creates of such pools, while others ask for the quality of
//   annotators
//                                    and for likely label errors
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/io/file.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "fulcrum/v1/annotator_service.grpc.pb.h"
#include "stages/core/random.h"
#include "tests/benchmarks/benchmark_daemon.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {
namespace {

constexpr int kFeatures = 10;
constexpr std::int64_t kRowsPerBatch = 1 << 17;
constexpr std::int64_t kAppendedRows = 10'000;
constexpr int kAppends = 5;
constexpr int kReaders = 8;

void Check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

void Check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

std::shared_ptr<arrow::RecordBatch> RandomRows(std::int64_t first, std::int64_t rows) {
  arrow::FieldVector fields = {arrow::field("id", arrow::utf8(), false)};
  arrow::StringBuilder ids;
  for (std::int64_t row = first; row < first + rows; ++row) Check(ids.Append(absl::StrCat("row-", row)));
  arrow::ArrayVector columns = {ids.Finish().ValueOrDie()};
  for (int i = 0; i < kFeatures; ++i) {
    Random random = Random::Fork(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(i));
    std::vector<float> values(static_cast<std::size_t>(rows));
    for (float& value : values) value = static_cast<float>(random.Normal());
    fields.push_back(arrow::field(absl::StrCat("f", i), arrow::float32(), false));
    columns.push_back(std::make_shared<arrow::FloatArray>(rows, arrow::Buffer::FromVector(std::move(values))));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, columns);
}

void WriteRows(const std::string& path, std::int64_t first, std::int64_t rows) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto writer = arrow::ipc::MakeFileWriter(file, RandomRows(0, 1)->schema()).ValueOrDie();
  for (std::int64_t row = 0; row < rows; row += kRowsPerBatch) {
    Check(writer->WriteRecordBatch(*RandomRows(first + row, std::min(kRowsPerBatch, rows - row))));
  }
  Check(writer->Close());
  Check(file->Close());
}

v1::CampaignSpec SpecOf(const std::string& name) {
  v1::CampaignSpec spec;
  spec.set_name(name);
  spec.mutable_pool()->add_sources("large.arrow");
  spec.mutable_pool()->set_id_column("id");
  spec.add_classes("neg");
  spec.add_classes("pos");
  return spec;
}

/// A line of /proc/self/status, in megabytes.
double Megabytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes / 1024;
  }
  throw std::runtime_error("no " + name);
}

/// Peak memory counts from now on.
void ResetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5\n";
}

void Append(const BenchmarkDaemon& daemon, const std::string& campaign, const std::string& bytes, int number) {
  grpc::ClientContext context;
  v1::AppendItemsResponse response;
  const auto stream = daemon.campaigns().AppendItems(&context, &response);
  v1::AppendItemsRequest message;
  message.mutable_begin()->set_campaign(campaign);
  message.mutable_begin()->set_request_id(absl::StrCat("append-", number));
  stream->Write(message);
  for (std::size_t sent = 0; sent < bytes.size(); sent += 1 << 20) {
    message.set_chunk(bytes.substr(sent, 1 << 20));
    stream->Write(message);
  }
  message.set_end(true);
  stream->Write(message);
  stream->WritesDone();
  Check(stream->Finish());
  if (response.added() != kAppendedRows) throw std::runtime_error("not all rows were added");
}

void MeasureAppends(const BenchmarkDaemon& daemon, std::int64_t rows) {
  PrintHeading(absl::StrCat("10,000 rows to a campaign with ", rows, " rows and ", kFeatures, " features").c_str());
  const double create = FastestSeconds(1, [&] { daemon.Create(SpecOf("grows")); });
  PrintFigure("importing the pool, and opening the campaign", create, "s");
  const testing::TemporaryDirectory folder;
  std::vector<double> seconds, megabytes;
  for (int i = 0; i < kAppends; ++i) {
    WriteRows(folder.File("more.arrow"), rows + i * kAppendedRows, kAppendedRows);
    std::ifstream file(folder.File("more.arrow"), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    ResetPeak();
    const double before = Megabytes("VmRSS");
    seconds.push_back(FastestSeconds(1, [&] { Append(daemon, "grows", bytes, i); }));
    megabytes.push_back(Megabytes("VmHWM") - before);
  }
  PrintFigure("the first append, which indexes the ids", seconds[0], "s");
  std::ranges::sort(seconds);
  PrintFigure("an append, median", seconds[kAppends / 2], "s");
  PrintAtMost("an append over the import, median", seconds[kAppends / 2] / create, 0.02);
  PrintAtMost("an append over the import, slowest", seconds.back() / create, 0.02);
  PrintAtMost("peak memory of an append", *std::ranges::max_element(megabytes), 256, "MiB");
  daemon.Delete("grows");
}

/// A campaign with as many labels as can be imported at once, and a model of them.
void CreateLabeled(const BenchmarkDaemon& daemon) {
  constexpr std::size_t kLabels = 1000;
  Random random(3);
  std::string text = "f0,f1\n";
  std::map<std::size_t, std::string> labels;
  for (std::size_t row = 0; row < 2 * kLabels; ++row) {
    const double mean = row % 2 == 0 ? -1 : 1;
    absl::StrAppend(&text, mean + random.Normal(), ",", random.Normal(), "\n");
    if (row < kLabels) labels.emplace(row, row % 2 == 0 ? "neg" : "pos");
  }
  daemon.WritePool("labeled.csv", text);
  v1::CampaignSpec spec = SpecOf("labeled");
  spec.mutable_pool()->set_sources(0, "labeled.csv");
  spec.mutable_pool()->clear_id_column();
  daemon.Create(spec);
  daemon.Import("labeled", labels);
  daemon.Start("labeled");
  daemon.WaitForTasks("labeled");
}

/// Reports that were answered.
int AskAboutAnnotators(const BenchmarkDaemon& daemon) {
  const auto stub = v1::AnnotatorService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon.port()), grpc::InsecureChannelCredentials()));
  v1::ListAnnotatorsRequest annotators;
  annotators.set_campaign("labeled");
  v1::ListAnnotatorsResponse described;
  grpc::ClientContext annotators_context;
  Check(stub->ListAnnotators(&annotators_context, annotators, &described));
  v1::ListLabelErrorsRequest errors;
  errors.set_campaign("labeled");
  v1::ListLabelErrorsResponse found;
  grpc::ClientContext errors_context;
  Check(stub->ListLabelErrors(&errors_context, errors, &found));
  return 2;
}

void MeasureGets(const BenchmarkDaemon& daemon, std::int64_t rows) {
  PrintHeading(absl::StrCat("Get while four campaigns with ", rows, " rows are created").c_str());
  v1::CampaignSpec small = SpecOf("small");
  daemon.WritePool("small.csv", "id,f0\na,1\nb,2\nc,3\n");
  small.mutable_pool()->set_sources(0, "small.csv");
  daemon.Create(small);
  CreateLabeled(daemon);
  std::atomic<int> creating = 4;
  std::atomic<int> reports = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      while (creating > 0) reports += AskAboutAnnotators(daemon);
    });
  }
  std::vector<std::jthread> creators;
  for (int i = 0; i < 4; ++i) {
    creators.emplace_back([&, i] {
      daemon.Create(SpecOf(absl::StrCat("large-", i)));
      --creating;
    });
  }
  std::vector<double> milliseconds;
  while (creating > 0) {
    milliseconds.push_back(1000 * FastestSeconds(1, [&] { daemon.Get("small"); }));
    // As often as a page that shows it, not as often as it can.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  creators.clear();
  readers.clear();
  std::ranges::sort(milliseconds);
  const auto percentile = [&](double share) {
    return milliseconds[static_cast<std::size_t>(share * static_cast<double>(milliseconds.size() - 1))];
  };
  PrintFigure("calls", static_cast<double>(milliseconds.size()), "");
  PrintFigure("reports of annotators and label errors meanwhile", reports, "");
  PrintFigure("Get, median", percentile(0.5), "ms");
  PrintAtMost("Get, p99", percentile(0.99), 50, "ms");
  for (int i = 0; i < 4; ++i) daemon.Delete(absl::StrCat("large-", i));
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int count, char** arguments) {
  using namespace fulcrum::benchmarks;  // NOLINT(google-build-using-namespace)
  const std::string mode = count > 1 ? arguments[1] : "";
  const char* const asked = std::getenv("FULCRUM_GROWTH_ROWS");
  const std::int64_t rows = asked == nullptr ? 5'000'000 : std::atoll(asked);
  const fulcrum::testing::TemporaryDirectory folder;
  WriteRows(folder.File("large.arrow"), 0, rows);
  const BenchmarkDaemon daemon;
  daemon.LinkPool("large.arrow", folder.File("large.arrow"));
  if (mode != "--lanes") MeasureAppends(daemon, rows);
  if (mode != "--append") MeasureGets(daemon, rows);
  return ExitCode();
}
