// Questions that are prepared once and asked millions of times.
//
//   auto question = client->Prepare({"matmul", {"M", "N", "K"}, {{"dtype", "bf16"}}, "cuda"});
//   auto reader = question->NewReader();                                  // one per thread
//   const Answer* best = reader.Find({m, n, k});                          // tens of nanoseconds; null: nothing is
//   known
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tunefarm/client/answer.h"
#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"

namespace tunefarm::client {

class Client;
class QuestionImpl;
class ReaderImpl;

inline constexpr size_t kVaryingDimsMax = 16;

// What questions have in common. Dims that are named nowhere take the defaults of the kernel's definition.
struct QuestionSpec {
  // Display name (its newest definition answers, unless program_digest names one) or "kernels/{id}".
  std::string kernel;
  // The integer dims that differ from question to question, in the order in which their values are given. At most 16.
  std::vector<std::string> varying_dims;
  // The dims that are the same in all: texts, flags, integers. At most 32 dims in all.
  ValueMap fixed_dims;
  // Device UUID, class id, class name, "host", "cuda", or a known class such as "A100". Empty: the first ready device
  // of the kernel's language. Offline: class id or name; empty where the snapshot has but one class of the kernel.
  std::string device;
  // A worse match is answered as kNotFound (and so by a compiled-in default).
  Match worst_match = Match::kDefault;
  // The program_digest of the definition that is asked for, such as the one that the program was built with: what other
  // definitions of the name have found is kStaleSource at best. It need not be the newest one, nor be stored. At most
  // 128 bytes; `tunefarm kernels check` prints it. Empty: that of `kernel`.
  std::string program_digest;
};

// The values of the varying dims: a view of integers that live during the call.
struct DimValues {
  const int64_t* data = nullptr;
  size_t size = 0;

  DimValues() = default;
  DimValues(const int64_t* first, size_t count) : data(first), size(count) {}
  DimValues(std::initializer_list<int64_t> values) : size(values.size()) { data = values.begin(); }
  DimValues(const std::vector<int64_t>& values) : data(values.data()), size(values.size()) {}  // NOLINT: converts
};

struct LookupOptions {
  // Most time the call may take; 0: ClientOptions::lookup_timeout.
  std::chrono::milliseconds timeout{0};
  // Asks the daemon even where the answer is cached.
  bool refresh = false;
};

struct TimedAnswer {
  std::shared_ptr<const Answer> answer;  // never null
  // How long ago the daemon was last known to say so; 0 from a snapshot and for compiled-in defaults.
  std::chrono::nanoseconds age{0};
};

// What is cached of a kernel, and how the stream that feeds it goes.
struct CacheState {
  bool is_loaded = false;                    // the whole catalog of the kernel has come once, or a snapshot was read
  bool is_live = false;                      // the stream is open and was heard within ClientOptions::silence_max
  int64_t revision = 0;                      // up to which all changes have come
  std::chrono::nanoseconds since_heard{-1};  // negative: never heard
  size_t bests = 0;  // of the kernel, and what they take; bests that did not fit are asked of the daemon instead
  size_t bytes = 0;
  size_t left_out = 0;
  int64_t connects = 0;  // streams opened so far
  int64_t resets = 0;    // times that the whole catalog was sent again
  Status last_error;     // of the last stream that ended
};

// Finds answers in memory. For one thread at a time; make one for each thread. May outlive question and client: then it
// goes on giving what it has.
class Reader {
 public:
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  // Never waits, never fails, allocates nothing where the answer is cached, and shares no lock with other readers.
  // Null: nothing is known yet (or `values` has another size than varying_dims); the daemon is then asked in the
  // background and a later call finds the answer. Until the daemon has answered, a compiled-in default answers where
  // there is one. The answer is valid until the next call on this reader, or its end; copy what you keep.
  const Answer* Find(DimValues values);
  const Answer* Find(std::initializer_list<int64_t> values) { return Find(DimValues(values)); }

  // How long ago the daemon was last known to say what Find returns; negative: it was never heard. 0 with a snapshot.
  std::chrono::nanoseconds Age() const;

 private:
  friend class Question;
  explicit Reader(std::unique_ptr<ReaderImpl> impl);
  std::unique_ptr<ReaderImpl> impl_;
};

// A prepared question. A cheap handle: copies are the same question. All methods may be called from any thread. It may
// outlive its client, and then only finds what is cached.
class Question {
 public:
  using Callback = std::function<void(Result<TimedAnswer>)>;

  Reader NewReader() const;

  // The cached answer; else the daemon's, which is then cached. Never blocks longer than the timeout. Where the daemon
  // cannot say in time (dead, frozen, no such kernel), a compiled-in default answers. Errors where there is none:
  // kUnavailable, kDeadlineExceeded, kNotFound (KERNEL_NOT_FOUND, DEVICE_NOT_FOUND), kInvalidArgument for `values` of
  // another size and for what the daemon refuses, kCancelled once the client is closed. That nothing is known is no
  // error: kNotFound is then the answer's match.
  Result<TimedAnswer> Lookup(DimValues values, const LookupOptions& options = {}) const;

  // The same without waiting. `callback` is called exactly once: in this call where the answer is cached, else on a
  // thread of the library, which it must not block, by the end of the timeout.
  void LookupAsync(DimValues values, const LookupOptions& options, Callback callback) const;

  // Waits until all changes up to `revision` have come (0: until the cache is loaded). kDeadlineExceeded.
  Status WaitForRevision(int64_t revision, std::chrono::milliseconds timeout) const;

  CacheState state() const;

 private:
  friend class Client;
  explicit Question(std::shared_ptr<QuestionImpl> impl);
  std::shared_ptr<QuestionImpl> impl_;
};

}  // namespace tunefarm::client
