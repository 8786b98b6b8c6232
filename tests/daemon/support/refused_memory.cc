#include "tests/daemon/support/refused_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> refused_from = SIZE_MAX, refused_to = 0;
std::atomic<int> refused = 0;
thread_local std::size_t refused_here = SIZE_MAX;
thread_local int allowed_here = 0;

bool IsRefused(std::size_t size) {
  if (size == refused_here && allowed_here-- == 0) return true;
  return size >= refused_from.load() && size <= refused_to.load();
}

}  // namespace

void* operator new(std::size_t size) {
  if (IsRefused(size)) {
    ++refused;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace fulcrum::testing {

void RefuseMemory(std::size_t from, std::size_t to) {
  refused_to = to;
  refused_from = from;
}

void AllowMemory() {
  refused_from = SIZE_MAX;
  refused_here = SIZE_MAX;
}

void RefuseMemoryHere(std::size_t size, int count) {
  allowed_here = count;
  refused_here = size;
}

int RefusedAllocations() {
  return refused;
}

}  // namespace fulcrum::testing
