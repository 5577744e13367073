#include "tests/unit/client_cpp/fake_daemon.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "server/base/check.h"
#include "server/base/file.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/error.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm::client {
namespace {

constexpr Duration kHeartbeat = std::chrono::milliseconds(20);
constexpr Duration kGlance = std::chrono::milliseconds(5);
constexpr int kBestsPerPart = 3;

std::string KeyOf(const v1::BestConfig& best) {
  return best.program_digest() + "|" + best.problem().key() + "|" + best.device_class_id();
}

grpc::Status NotFoundStatus(const std::string& message, const std::string& reason) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  return {grpc::StatusCode::NOT_FOUND, message, detail.SerializeAsString()};
}

}  // namespace

v1::BestConfig MakeBest(int64_t m, int64_t n, int64_t tile, const std::string& program,
                        const std::string& device_class) {
  v1::BestConfig best;
  best.set_kernel_name("matmul");
  best.set_program_digest(program);
  best.set_device_class_id(device_class);
  best.set_device_class_name("Test CPU");
  best.set_driver_version("1");
  best.set_toolkit_version("13.0");
  auto& dims = *best.mutable_problem()->mutable_dims();
  dims["M"].set_int_value(m);
  dims["N"].set_int_value(n);
  dims["dtype"].set_string_value("bf16");
  best.mutable_problem()->set_key("M=" + std::to_string(m) + ",N=" + std::to_string(n) + ",dtype=bf16");
  (*best.mutable_config()->mutable_values())["TILE"].set_int_value(tile);
  best.mutable_measurement()->set_median_ns(1000 + static_cast<double>(tile));
  best.set_job("jobs/1");
  return best;
}

int64_t FakeCatalog::Put(v1::BestConfig best) {
  MutexLock lock(&mutex);
  best.set_revision(++last_revision);
  bests[KeyOf(best)] = best;
  history.push_back({last_revision, std::move(best), false});
  changed.NotifyAll();
  return last_revision;
}

int64_t FakeCatalog::Retire(const v1::BestConfig& best) {
  MutexLock lock(&mutex);
  bests.erase(KeyOf(best));
  history.push_back({++last_revision, best, true});
  changed.NotifyAll();
  return last_revision;
}

void FakeCatalog::ForgetHistory() {
  MutexLock lock(&mutex);
  history.clear();
  history_from = last_revision;
}

void FakeCatalog::Replace(const std::string& id) {
  MutexLock lock(&mutex);
  catalog_id = id;
  last_revision = 1;
  history_from = 1;
  bests.clear();
  history.clear();
  changed.NotifyAll();
}

void FakeCatalog::SetProgram(const std::string& digest) {
  MutexLock lock(&mutex);
  program = digest;
}

int64_t FakeCatalog::revision() const {
  MutexLock lock(&mutex);
  return last_revision;
}

struct FakeDaemon::Services : v1::KernelService::Service,
                              v1::DeviceService::Service,
                              v1::LookupService::Service,
                              v1::CatalogService::Service,
                              v1::TuningService::Service {
  explicit Services(FakeCatalog* of) : catalog(of) {}

  FakeCatalog* const catalog;
  std::atomic<bool> frozen{false};
  std::atomic<int> held{0}, lookups{0}, watches{0}, resets{0}, break_after{-1};
  mutable Mutex mutex;
  CondVar job_changed;
  std::vector<v1::JobEvent> events GUARDED_BY(mutex);
  std::vector<v1::CreateJobRequest> submitted GUARDED_BY(mutex);
  std::vector<int64_t> job_watches GUARDED_BY(mutex);
  bool lose_submit GUARDED_BY(mutex) = false;

  // Holds a call while the daemon is frozen. False: the caller has gone.
  bool Proceed(grpc::ServerContext* context) {
    if (frozen) ++held;
    while (frozen && !context->IsCancelled()) Notification().WaitFor(kGlance);
    return !context->IsCancelled();
  }

  grpc::Status GetKernel(grpc::ServerContext* context, const v1::GetKernelRequest* request,
                         v1::GetKernelResponse* response) override {
    if (!Proceed(context)) return grpc::Status::CANCELLED;
    if (request->name() != "matmul" && request->name() != "kernels/k1") {
      return NotFoundStatus("there is no kernel '" + request->name() + "'", "KERNEL_NOT_FOUND");
    }
    v1::Kernel* const kernel = response->mutable_kernel();
    kernel->set_name("kernels/k1");
    kernel->set_display_name("matmul");
    kernel->set_language(v1::LANGUAGE_HOST_CXX);
    kernel->add_dims()->set_name("M");
    kernel->add_dims()->set_name("N");
    kernel->mutable_dims(1)->mutable_default_value()->set_int_value(8);
    kernel->add_dims()->set_name("dtype");
    MutexLock lock(&catalog->mutex);
    kernel->set_program_digest(catalog->program);
    return grpc::Status::OK;
  }

  grpc::Status ListDevices(grpc::ServerContext* context, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    if (!Proceed(context)) return grpc::Status::CANCELLED;
    v1::Device* const device = response->add_devices();
    device->set_uuid("CPU-1");
    device->mutable_device_class()->set_id(kClass);
    device->mutable_device_class()->set_display_name("Test CPU");
    device->mutable_device_class()->set_kind(v1::DEVICE_KIND_HOST);
    device->set_state(v1::DEVICE_STATE_READY);
    device->set_driver_version("1");
    MutexLock lock(&catalog->mutex);
    device->set_toolkit_version(catalog->toolkit);
    return grpc::Status::OK;
  }

  grpc::Status ListDeviceClasses(grpc::ServerContext*, const v1::ListDeviceClassesRequest*,
                                 v1::ListDeviceClassesResponse* response) override {
    auto* const known = response->add_classes();
    known->set_short_name("A100");
    known->mutable_device_class()->set_id("a100-class");
    known->mutable_device_class()->set_kind(v1::DEVICE_KIND_CUDA);
    return grpc::Status::OK;
  }

  grpc::Status LookupConfig(grpc::ServerContext* context, const v1::LookupConfigRequest* request,
                            v1::LookupConfigResponse* response) override {
    ++lookups;
    if (!Proceed(context)) return grpc::Status::CANCELLED;
    if (request->kernel() != "matmul" && request->kernel() != "kernels/k1") {
      return NotFoundStatus("there is no kernel '" + request->kernel() + "'", "KERNEL_NOT_FOUND");
    }
    const auto& dims = request->problem().dims();
    const int64_t m = dims.at("M").int_value();
    const int64_t n = dims.count("N") > 0 ? dims.at("N").int_value() : 8;
    MutexLock lock(&catalog->mutex);
    const std::string program = request->program_digest().empty() ? catalog->program : request->program_digest();
    response->set_catalog_revision(catalog->last_revision);
    const v1::BestConfig* older = nullptr;  // of another program, for this problem
    const v1::BestConfig* nearest = nullptr;
    const auto distance = [m](const v1::BestConfig& best) {
      return std::abs(best.problem().dims().at("M").int_value() - m);
    };
    for (const auto& [key, best] : catalog->bests) {
      if (best.device_class_id() != kClass || best.problem().dims().at("N").int_value() != n) continue;
      if (best.program_digest() != program) {
        if (distance(best) == 0) older = &best;
        continue;
      }
      if (nearest == nullptr || distance(best) < distance(*nearest)) nearest = &best;
    }
    if (nearest != nullptr && distance(*nearest) == 0) {
      response->set_match(v1::MATCH_EXACT);
      *response->mutable_best() = *nearest;
    } else if (older != nullptr && request->worst_match() >= v1::MATCH_STALE_SOURCE) {
      response->set_match(v1::MATCH_STALE_SOURCE);
      *response->mutable_best() = *older;
    } else if (nearest != nullptr && request->worst_match() >= v1::MATCH_NEAREST_SHAPE) {
      response->set_match(v1::MATCH_NEAREST_SHAPE);
      response->set_distance(static_cast<double>(distance(*nearest)));
      *response->mutable_best() = *nearest;
    } else if (request->worst_match() >= v1::MATCH_DEFAULT) {
      response->set_match(v1::MATCH_DEFAULT);
      (*response->mutable_best()->mutable_config()->mutable_values())["TILE"].set_int_value(1);
    } else {
      response->set_match(v1::MATCH_NOT_FOUND);
    }
    return grpc::Status::OK;
  }

  grpc::Status ListBestConfigs(grpc::ServerContext*, const v1::ListBestConfigsRequest* request,
                               v1::ListBestConfigsResponse* response) override {
    MutexLock lock(&catalog->mutex);
    response->set_catalog_revision(catalog->last_revision);
    // One a page.
    size_t skip = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    if (skip >= catalog->bests.size()) return grpc::Status::OK;
    *response->add_bests() = std::next(catalog->bests.begin(), static_cast<std::ptrdiff_t>(skip))->second;
    if (++skip < catalog->bests.size()) response->set_next_page_token(std::to_string(skip));
    return grpc::Status::OK;
  }

  // The next change after `revision`, or everything.
  std::vector<v1::WatchBestConfigsResponse> Parts(int64_t* revision, std::string* catalog_id) {
    MutexLock lock(&catalog->mutex);
    std::vector<v1::WatchBestConfigsResponse> parts(1);
    const auto room = [&parts]() -> v1::WatchBestConfigsResponse* {
      if (parts.back().bests_size() + parts.back().retired_size() == kBestsPerPart) parts.emplace_back();
      return &parts.back();
    };
    if (*catalog_id != catalog->catalog_id || *revision < catalog->history_from || *revision == 0) {
      ++resets;
      parts[0].set_reset(true);
      for (const auto& [key, best] : catalog->bests) *room()->add_bests() = best;
    } else {
      if (*revision == catalog->last_revision) return {};
      std::map<std::string, const FakeCatalog::Change*> last;
      for (const FakeCatalog::Change& change : catalog->history) {
        if (change.revision > *revision) last[KeyOf(change.best)] = &change;
      }
      for (const auto& [text, change] : last) {
        if (!change->retired) {
          *room()->add_bests() = change->best;
          continue;
        }
        v1::BestConfigKey* const key = room()->add_retired();
        key->set_program_digest(change->best.program_digest());
        key->set_problem_key(change->best.problem().key());
        key->set_device_class_id(change->best.device_class_id());
      }
    }
    *revision = catalog->last_revision;
    *catalog_id = catalog->catalog_id;
    parts.back().set_revision(*revision);
    parts.back().set_catalog_id(*catalog_id);
    return parts;
  }

  grpc::Status WatchBestConfigs(grpc::ServerContext* context, const v1::WatchBestConfigsRequest* request,
                                grpc::ServerWriter<v1::WatchBestConfigsResponse>* writer) override {
    ++watches;
    if (request->kernel() != "matmul") return {grpc::StatusCode::NOT_FOUND, "no such kernel"};
    int64_t revision = request->after_revision();
    std::string catalog_id = request->catalog_id();
    const int break_now = break_after.exchange(-1);
    while (Proceed(context)) {
      int written = 0;
      for (const auto& part : Parts(&revision, &catalog_id)) {
        if (written++ == break_now) return {grpc::StatusCode::UNAVAILABLE, "broken off"};
        if (!Proceed(context) || !writer->Write(part)) return grpc::Status::CANCELLED;
      }
      {
        MutexLock lock(&catalog->mutex);
        if (catalog->last_revision == revision) catalog->changed.WaitFor(&catalog->mutex, kHeartbeat);
      }
      if (!Proceed(context) || !writer->Write(v1::WatchBestConfigsResponse())) return grpc::Status::CANCELLED;
    }
    return grpc::Status::CANCELLED;
  }

  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::CreateJobResponse* response) override {
    if (!Proceed(context)) return grpc::Status::CANCELLED;
    MutexLock lock(&mutex);
    submitted.push_back(*request);
    if (lose_submit) {
      lose_submit = false;
      return {grpc::StatusCode::UNAVAILABLE, "the answer got lost"};
    }
    *response->mutable_job() = request->job();
    response->mutable_job()->set_name("jobs/1");
    response->mutable_job()->set_state(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }

  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    if (!Proceed(context)) return grpc::Status::CANCELLED;
    if (request->name() != "jobs/1") return NotFoundStatus("there is no job " + request->name(), "JOB_NOT_FOUND");
    response->mutable_job()->set_name("jobs/1");
    response->mutable_job()->set_state(v1::JOB_STATE_SUCCEEDED);
    *response->mutable_job()->add_studies()->mutable_best() = MakeBest(1, 1, 7);
    return grpc::Status::OK;
  }

  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    response->add_jobs()->set_name(request->page_token().empty() ? "jobs/2" : "jobs/1");
    if (request->page_token().empty()) response->set_next_page_token("more");
    return grpc::Status::OK;
  }

  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, "it has ended"};
  }

  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    if (request->name() != "jobs/1") return NotFoundStatus("there is no job " + request->name(), "JOB_NOT_FOUND");
    size_t next = static_cast<size_t>(request->after_event_id());
    {
      MutexLock lock(&mutex);
      job_watches.push_back(request->after_event_id());
    }
    while (Proceed(context)) {
      v1::WatchJobResponse response;
      {
        MutexLock lock(&mutex);
        if (next == events.size()) {
          job_changed.WaitFor(&mutex, kHeartbeat);
          continue;
        }
        *response.mutable_event() = events[next++];
      }
      if (response.event().kind_case() == v1::JobEvent::KIND_NOT_SET) return grpc::Status::OK;
      if (!writer->Write(response)) break;
    }
    return grpc::Status::CANCELLED;
  }
};

FakeDaemon::FakeDaemon(FakeCatalog* catalog, std::string socket_path)
    : catalog_(catalog), socket_path_(std::move(socket_path)), services_(std::make_unique<Services>(catalog)) {}

FakeDaemon::~FakeDaemon() {
  Thaw();
  Kill();
}

void FakeDaemon::Start() {
  TUNEFARM_CHECK(server_ == nullptr);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_path_, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::KernelService::Service*>(services_.get()));
  builder.RegisterService(static_cast<v1::DeviceService::Service*>(services_.get()));
  builder.RegisterService(static_cast<v1::LookupService::Service*>(services_.get()));
  builder.RegisterService(static_cast<v1::CatalogService::Service*>(services_.get()));
  builder.RegisterService(static_cast<v1::TuningService::Service*>(services_.get()));
  server_ = builder.BuildAndStart();
  TUNEFARM_CHECK(server_ != nullptr);
}

void FakeDaemon::Kill() {
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
  server_.reset();
  TUNEFARM_CHECK_OK(RemoveTree(socket_path_));
}

void FakeDaemon::Freeze() {
  services_->held = 0;
  services_->frozen = true;
}
void FakeDaemon::Thaw() { services_->frozen = false; }
std::string FakeDaemon::address() const { return "unix:" + socket_path_; }
int FakeDaemon::lookups() const { return services_->lookups; }
int FakeDaemon::watches() const { return services_->watches; }
int FakeDaemon::resets() const { return services_->resets; }
void FakeDaemon::BreakNextWatchAfter(int parts) { services_->break_after = parts; }
void FakeDaemon::WaitUntilHeld(int calls) {
  TUNEFARM_CHECK(Eventually([&] { return services_->held >= calls; }));
}

void FakeDaemon::AddJobEvent(v1::JobEvent event) {
  MutexLock lock(&services_->mutex);
  event.set_event_id(static_cast<int64_t>(services_->events.size()) + 1);
  services_->events.push_back(std::move(event));
  services_->job_changed.NotifyAll();
}

std::vector<v1::CreateJobRequest> FakeDaemon::submitted() const {
  MutexLock lock(&services_->mutex);
  return services_->submitted;
}

void FakeDaemon::LoseNextSubmit() {
  MutexLock lock(&services_->mutex);
  services_->lose_submit = true;
}

std::vector<int64_t> FakeDaemon::job_watches() const {
  MutexLock lock(&services_->mutex);
  return services_->job_watches;
}

bool Eventually(const std::function<bool()>& condition) {
  const MonotonicTime end = Clock::Real()->Now() + std::chrono::minutes(1);
  while (!condition()) {
    if (Clock::Real()->Now() > end) return false;
    Notification().WaitFor(kGlance);
  }
  return true;
}

ClientOptions QuickOptions(const FakeDaemon& daemon) {
  ClientOptions options;
  options.server = daemon.address();
  options.reconnect_min = std::chrono::milliseconds(5);
  options.reconnect_max = std::chrono::milliseconds(50);
  options.silence_max = std::chrono::milliseconds(400);
  options.lookup_timeout = std::chrono::seconds(60);
  return options;
}

QuestionSpec MatmulSpec() {
  QuestionSpec spec;
  spec.kernel = "matmul";
  spec.varying_dims = {"M", "N"};
  spec.fixed_dims = {{"dtype", "bf16"}};
  spec.device = "host";
  return spec;
}

}  // namespace tunefarm::client
