// Work in parts on several cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tunefarm::space_internal {

// As SpaceOptions::threads means it: at least 1.
int ThreadCount(int threads);

// Calls body(0) to body(count - 1), each once and begun in this order, on up to `threads` threads, of which the calling
// one is one; returns when all have returned. What the bodies wrote is visible then.
void ForEachPart(int threads, size_t count, const std::function<void(size_t)>& body);

}  // namespace tunefarm::space_internal
