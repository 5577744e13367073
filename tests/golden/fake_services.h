// A daemon that answers every call with the same few jobs, devices and bests, so that the CLI's output depends on the
// CLI alone. Served on a Unix socket by real gRPC.
//
// Jobs:  17 succeeded, one problem      18 running, two problems     19 ended without a valid config
//        20 failed                      21 its watch blocks          22 its first watch breaks off
// A definition with the display name "faulty" becomes job 19, the label "endless" makes job 21, all others job 17.
//        27 of grouped_gemm_forward, for exports (fake_bests.h, as is what ListBestConfigs answers)
//        28 its objective is energy
// A stored kernel is called like that, too; "gone" is not stored, "gpu-9" is no device, and N=7 has no valid config.
// LookupConfig answers by the value of the dim N: the number of the Match; on the device "pinned" with a pinned best.
// Batches find 64 and 128 of their first column. The bests of the kernel "annotated" are a pinned and a plain one. The
// catalog's history has the revisions 9 to 12; the first watch of it breaks off at 12 and is resumed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::golden {

class FakeDaemon {
 public:
  // Serves until destroyed. `socket_path` must not exist.
  explicit FakeDaemon(const std::string& socket_path);
  ~FakeDaemon();

  // "unix:/path".
  const std::string& address() const;
  // What the last CreateJob asked for.
  v1::CreateJobRequest last_create_job() const;
  // Happens when job 21 is being watched.
  Notification* watch_is_blocked();

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tunefarm::golden
