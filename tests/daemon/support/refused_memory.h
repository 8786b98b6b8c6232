// A program that links this has an operator new that can be told to refuse memory of some sizes. Thread-safe.
#pragma once

#include <cstddef>

namespace fulcrum::testing {

/// From now on allocations of `from` to `to` bytes throw std::bad_alloc, until AllowMemory.
void RefuseMemory(std::size_t from, std::size_t to);
void AllowMemory();
/// The allocation number `count` of this size on this thread, from 0, throws; AllowMemory ends it.
void RefuseMemoryHere(std::size_t size, int count);
/// How many allocations were refused so far.
int RefusedAllocations();

}  // namespace fulcrum::testing
