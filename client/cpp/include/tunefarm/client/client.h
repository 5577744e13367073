// A connection to a tunefarm daemon with a cache of its answers, or a snapshot file in place of a daemon.
//
//   auto client = tunefarm::client::Client::Open();
//   auto question = client->Prepare({"matmul", {"M", "N", "K"}, {{"dtype", "bf16"}}});
//   auto answer = question->Lookup({4096, 4096, 4096});
//   if (answer.ok()) Launch(answer->answer->config);
//
// The daemon may be dead, frozen or restarted at any time: what is cached goes on answering, no call blocks past its
// deadline, and the cache catches up by itself. Nothing here throws, starts a daemon, or logs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tunefarm/client/answer.h"
#include "tunefarm/client/defaults.h"
#include "tunefarm/client/job.h"
#include "tunefarm/client/package.h"
#include "tunefarm/client/question.h"
#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"

namespace tunefarm::client {

struct ClientOptions {
  // "unix:/path" or "host:port" (with tls_ca, or on this machine). Empty: what TUNEFARM_SERVER names, unless
  // data_directory is given, else the client socket of the data directory's daemon.
  std::string server;
  // Empty: TUNEFARM_DATA_DIR, else the default one of the user.
  std::string data_directory;
  // Files (PEM): with the first the client talks TLS; the next two are the caller's own certificate, if it has one.
  // What is empty comes from TUNEFARM_TLS_CA, TUNEFARM_CLIENT_CERTIFICATE and TUNEFARM_CLIENT_KEY. Files that are
  // replaced are read again for new connections.
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  // The caller's token ("tft_..."), or a file with it, if it has one. Empty: TUNEFARM_TOKEN, TUNEFARM_TOKEN_FILE.
  std::string token;
  std::string token_file;
  // A file of `tunefarm export snapshot`: then there is no daemon, and jobs cannot be submitted.
  std::string snapshot;
  // Answer where nothing else does.
  std::vector<DefaultTable> defaults;

  // The deadline of calls that name none: of look-ups, and of all else.
  std::chrono::milliseconds lookup_timeout{1000};
  std::chrono::milliseconds timeout{60'000};

  // A stream that breaks is opened again after a pause that grows from the first to the second, drawn at random from
  // its second half.
  std::chrono::milliseconds reconnect_min{50};
  std::chrono::milliseconds reconnect_max{2000};
  // A stream that is silent for so long is given up and opened again. The daemon says something every 5 seconds.
  std::chrono::milliseconds silence_max{12'000};
  // How often the kernel's newest definition and the device are looked up again. Until then a redefined kernel is
  // not noticed, unless something is tuned with it.
  std::chrono::milliseconds refresh_interval{30'000};

  // Bounds of the cache. Bests of the catalog over all kernels that are asked about, and what they take: those beyond
  // are not kept, and questions about them go to the daemon. Answers that are not of the catalog's stream: the oldest
  // leaves first.
  size_t cached_bests_max = 200'000;
  size_t cached_bytes_max = size_t{512} << 20;
  size_t cached_answers_max = 16'384;
  // Prepared questions that are alive at once.
  size_t questions_max = 1024;
};

// All methods may be called from any thread. Copies are the same client, which closes with the last of them.
class Client {
 public:
  using EventCallback = std::function<void(const JobEvent&)>;
  // kOk: the job has ended, however it ended.
  using EndCallback = std::function<void(const Status&)>;

  // That no daemon runs is no error. kInvalidArgument for options that make no sense, and for files that are of no use;
  // for a snapshot kNotFound, and kDataLoss or kInvalidArgument (SNAPSHOT_DAMAGED, SNAPSHOT_VERSION) when it is none.
  static Result<Client> Open(const ClientOptions& options = {});

  // Makes a question to be asked often: the cache of its kernel is then kept up to date. Does not wait for the daemon.
  // kInvalidArgument for a spec that makes no sense, kResourceExhausted above questions_max. Offline also kNotFound for
  // a kernel, definition or device that the snapshot does not have and for which there is no compiled-in default.
  Result<Question> Prepare(const QuestionSpec& spec) const;

  // Queues a job and returns it as stored. Repeated while there is no daemon, under the same request_id, until the
  // deadline. `timeout` 0: ClientOptions::timeout; so below.
  Result<Job> Submit(const JobSpec& spec, std::chrono::milliseconds timeout = {}) const;
  // With its studies. kNotFound.
  Result<Job> GetJob(const std::string& name, std::chrono::milliseconds timeout = {}) const;
  // A page of at most `page_size` (0: 50; at most 1000) jobs without their studies.
  Result<JobList> ListJobs(int page_size = 0, const std::string& page_token = {},
                           std::chrono::milliseconds timeout = {}) const;
  // Hands out no more trials. kFailedPrecondition if it has ended.
  Result<Job> CancelJob(const std::string& name, std::chrono::milliseconds timeout = {}) const;

  // Calls `on_event` with each event of a job from now on (or after `after_event_id`), the first of them a snapshot,
  // and `on_end` once, last: when the job has ended, when the daemon refuses (kNotFound), or when it has not been heard
  // for `reconnect_max_wait` (kUnavailable). A broken stream is resumed after the last event. Both are called on a
  // thread of the library, one at a time; they must not block it, and may make other calls of the client that do not
  // wait. The returned handle must be kept.
  JobWatch WatchJob(const std::string& name, EventCallback on_event, EndCallback on_end, int64_t after_event_id = 0,
                    std::chrono::milliseconds reconnect_max_wait = std::chrono::milliseconds(30'000)) const;
  // Blocks until the job has ended, and returns it. kDeadlineExceeded after `timeout` (0: never), and as WatchJob. Not
  // from a callback of the library.
  Result<Job> WaitForJob(const std::string& name, std::chrono::milliseconds timeout = {}) const;

  // Lets the daemon compile best configs, and the default configs of their problems, into a package, and fetches it.
  // Blocks for as long as that takes, which is little for what is in the daemon's cache; `timeout` 0: 10 minutes.
  // kNotFound for no such best, kFailedPrecondition (PACKAGE_EMPTY, NO_COMPILER), kPermissionDenied without the right
  // to store kernels. A package is code: it runs with the rights of the process that launches it.
  Result<Package> ExportPackage(const PackageSpec& spec, std::chrono::milliseconds timeout = {}) const;

  // Ends all calls in flight with kCancelled. Questions and readers go on finding what is cached. Not from a callback.
  void Close();

  // Where the daemon is looked for, "unix:/path"; empty offline.
  const std::string& address() const;

  // The library's version, "0.1.0".
  static const char* Version();

 private:
  friend class Question;
  class Impl;
  explicit Client(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace tunefarm::client
