// Memory for the messages of one call, used again for the next one.
//
// A request with ten labels is some hundred small objects. Allocated one by one, by one thread, and freed by another,
// they cost a busy server more than what it does with them; on an arena they cost next to nothing. An arena's first
// thread allocates from memory that is at hand; others may allocate too, from a block of their own.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace fulcrum::pipeline {

/// Its messages live as long as it does. Thread-safe, except for Reset.
class MessageArena {
 public:
  MessageArena();
  MessageArena(const MessageArena&) = delete;
  MessageArena& operator=(const MessageArena&) = delete;

  template <typename Message>
  Message* New() {
    return google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }
  /// Forgets all messages. The calling thread is the first one again.
  void Reset() { arena_.Reset(); }

 private:
  static constexpr std::size_t kBytesAtHand = 8192;

  alignas(std::max_align_t) std::array<char, kBytesAtHand> at_hand_;
  google::protobuf::Arena arena_;
};

/// Arenas that are not in use. Thread-safe; the arenas may outlive it.
class ArenaPool {
 public:
  /// Empty, with the calling thread as its first. Comes back to the pool by itself.
  std::shared_ptr<MessageArena> Take();

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<MessageArena>> arenas;
  };
  const std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
};

/// Has gRPC put the request and the response of every call of a method on an arena. Thread-safe.
template <typename Request, typename Response>
class ArenaAllocator final : public grpc::MessageAllocator<Request, Response> {
 public:
  /// The pool must outlive it.
  explicit ArenaAllocator(ArenaPool& arenas) : arenas_(arenas) {}

  grpc::MessageHolder<Request, Response>* AllocateMessages() override { return new Holder(arenas_.Take()); }

 private:
  class Holder final : public grpc::MessageHolder<Request, Response> {
   public:
    explicit Holder(std::shared_ptr<MessageArena> arena) : arena_(std::move(arena)) {
      this->set_request(arena_->New<Request>());
      this->set_response(arena_->New<Response>());
    }
    void Release() override { delete this; }

   private:
    const std::shared_ptr<MessageArena> arena_;
  };

  ArenaPool& arenas_;
};

}  // namespace fulcrum::pipeline
