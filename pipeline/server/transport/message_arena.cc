#include "pipeline/server/transport/message_arena.h"

#include <utility>

namespace fulcrum::pipeline {
namespace {

// A block for a thread that is not the first; the tasks of one call fit.
constexpr std::size_t kBlockBytes = 4096;
// As many as calls may be under way on a busy server; those beyond are freed.
constexpr std::size_t kMostIdle = 1024;

google::protobuf::ArenaOptions OptionsOf(char* at_hand, std::size_t bytes) {
  google::protobuf::ArenaOptions options;
  options.initial_block = at_hand;
  options.initial_block_size = bytes;
  options.start_block_size = kBlockBytes;
  return options;
}

}  // namespace

MessageArena::MessageArena() : arena_(OptionsOf(at_hand_.data(), at_hand_.size())) {}

std::shared_ptr<MessageArena> ArenaPool::Take() {
  std::unique_ptr<MessageArena> arena;
  {
    const std::scoped_lock lock(idle_->mutex);
    if (!idle_->arenas.empty()) {
      arena = std::move(idle_->arenas.back());
      idle_->arenas.pop_back();
    }
  }
  if (arena == nullptr) {
    arena = std::make_unique<MessageArena>();
  } else {
    arena->Reset();
  }
  return {arena.release(), [idle = idle_](MessageArena* used) {
            std::unique_ptr<MessageArena> back(used);
            // Large messages go at once, not when the arena is next needed.
            back->Reset();
            const std::scoped_lock lock(idle->mutex);
            if (idle->arenas.size() < kMostIdle) idle->arenas.push_back(std::move(back));
          }};
}

}  // namespace fulcrum::pipeline
