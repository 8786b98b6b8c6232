#include "pipeline/round/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kRedrawEvery{100};
// Carriage return, then erase to the end of the line.
constexpr std::string_view kStartLineAnew = "\r\x1b[K";

void WriteToStandardError(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string Describe(std::string_view stage, std::size_t done, std::size_t total) {
  const std::string name(stage);
  if (total > 0) return absl::StrCat(name, " ", done, "/", total);
  return done > 0 ? absl::StrCat(name, " ", done) : name;
}

std::string Bar(std::size_t done, std::size_t total) {
  constexpr std::size_t kWidth = 24;
  const std::size_t filled = kWidth * done / total;
  return absl::StrCat("[", std::string(filled, '#'), std::string(kWidth - filled, '.'), "]");
}

}  // namespace

std::string DurationText(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

ProgressStyle ChooseProgressStyle(bool quiet, bool verbose) {
  if (quiet) return ProgressStyle::kSilent;
  if (verbose) return ProgressStyle::kLinePerStage;
  return isatty(STDERR_FILENO) == 1 ? ProgressStyle::kOneLine : ProgressStyle::kSilent;
}

Progress::Progress(std::string title, ProgressStyle style, Writer writer)
    : title_(std::move(title)),
      style_(style),
      writer_(writer ? std::move(writer) : Writer(WriteToStandardError)),
      start_(Clock::now()) {}

Progress::~Progress() {
  Clear();
}

void Progress::Update(std::string_view stage, std::size_t done, std::size_t total) {
  if (style_ == ProgressStyle::kSilent) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const bool new_stage = stage != stage_;
  if (new_stage) stage_ = std::string(stage);
  if (style_ == ProgressStyle::kLinePerStage) {
    if (new_stage)
      writer_(absl::StrFormat("%s: %.2f s: %s\n", title_, std::chrono::duration<double>(now - start_).count(), stage_));
    return;
  }
  if (new_stage || now - last_drawn_ >= kRedrawEvery) Redraw(stage, done, total, now);
}

void Progress::SkipJob() {
  const std::lock_guard lock(mutex_);
  ++skipped_;
}

void Progress::UpdateJob(std::string_view what, std::size_t done, std::size_t total) {
  if (style_ == ProgressStyle::kSilent || total == 0) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (style_ == ProgressStyle::kLinePerStage) {
    writer_(absl::StrFormat("%s: %.2f s: %s (%d/%d)\n", title_, elapsed, std::string(what), done, total));
    return;
  }
  if (now - last_drawn_ < kRedrawEvery && done < total) return;
  const std::size_t own = done > skipped_ ? done - skipped_ : 0;
  const std::string left =
      own > 0 ? DurationText(elapsed / static_cast<double>(own) * static_cast<double>(total - done)) : "?";
  Draw(absl::StrFormat("%s %3d%% (%d/%d), %s left, now %s", Bar(done, total), 100 * done / total, done, total, left,
                       std::string(what)),
       now);
}

void Progress::Redraw(std::string_view stage, std::size_t done, std::size_t total, Clock::time_point now) {
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  Draw(absl::StrFormat("%s, %.1f s", Describe(stage, done, total), elapsed), now);
}

void Progress::Draw(const std::string& text, Clock::time_point now) {
  writer_(absl::StrCat(std::string(kStartLineAnew), title_, ": ", text));
  last_drawn_ = now;
  line_shown_ = true;
}

void Progress::Clear() {
  const std::lock_guard lock(mutex_);
  if (!line_shown_) return;
  writer_(kStartLineAnew);
  line_shown_ = false;
}

}  // namespace fulcrum::pipeline
