#include "pipeline/server/transport/message_arena.h"

#include <gtest/gtest.h>

#include <thread>

#include "fulcrum/v1/labeling_service.pb.h"

namespace fulcrum::pipeline {
namespace {

v1::SubmitLabelsRequest* FillRequest(MessageArena& arena) {
  auto* request = arena.New<v1::SubmitLabelsRequest>();
  for (int i = 0; i < 1000; ++i) request->add_labels()->set_item_id("an example whose name is no short string");
  return request;
}

TEST(ArenaPool, WhatWasUsedIsUsedAgainAndEmpty) {
  ArenaPool pool;
  std::shared_ptr<MessageArena> arena = pool.Take();
  const MessageArena* const first = arena.get();
  FillRequest(*arena);
  const std::shared_ptr<MessageArena> other = pool.Take();
  EXPECT_NE(other.get(), first) << "one that is in use is nobody else's";
  arena.reset();
  arena = pool.Take();
  EXPECT_EQ(arena.get(), first);
  EXPECT_EQ(arena->New<v1::SubmitLabelsRequest>()->labels_size(), 0);
}

TEST(ArenaPool, MessagesMayOutliveItAndBeFilledByAnotherThread) {
  auto pool = std::make_unique<ArenaPool>();
  std::shared_ptr<MessageArena> arena = pool->Take();
  pool.reset();
  v1::SubmitLabelsRequest* request = nullptr;
  std::jthread([&] { request = FillRequest(*arena); }).join();
  EXPECT_EQ(request->labels(999).item_id(), "an example whose name is no short string");
}

TEST(ArenaAllocator, GivesEveryCallItsOwnMessages) {
  ArenaPool pool;
  ArenaAllocator<v1::SubmitLabelsRequest, v1::SubmitLabelsResponse> allocator(pool);
  auto* first = allocator.AllocateMessages();
  auto* second = allocator.AllocateMessages();
  first->request()->set_request_id("first");
  second->request()->set_request_id("second");
  first->response()->add_results()->set_sequence(7);
  EXPECT_EQ(first->request()->request_id(), "first");
  EXPECT_EQ(second->response()->results_size(), 0);
  first->Release();
  second->Release();
}

}  // namespace
}  // namespace fulcrum::pipeline
