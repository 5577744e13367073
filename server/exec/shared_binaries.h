// SharedBinaries: binaries that other machines of a farm compile, or need. Asked behind the evaluator's own cache,
// before it compiles. Only of compilers whose binaries are the same on every machine: those for GPUs.
//
// Thread-safe; no call blocks.
#pragma once

#include <functional>
#include <optional>

#include "server/base/hash.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

class SharedBinaries {
 public:
  virtual ~SharedBinaries() = default;

  // The key is the digest of all that goes into the binary, its compiler included. Calls `done` once, on any thread,
  // also before it returns; none: it is to be compiled here. The owner ensures that this is over, or never
  // comes, before the evaluator ends.
  virtual void Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) = 0;
  // It was asked for here, and is here: others may need it.
  virtual void Keep(const Digest& key, const CompileResult& result) = 0;
};

}  // namespace tunefarm
