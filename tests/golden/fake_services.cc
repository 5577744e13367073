#include "tests/golden/fake_services.h"

#include <algorithm>
#include <map>
#include <utility>

#include "server/base/check.h"
#include "server/version.h"
#include "tests/golden/fake_bests.h"
#include "tests/golden/fake_catalog.h"
#include "tests/golden/fake_data.h"
#include "tests/golden/fake_status.h"
#include "tests/golden/fake_studies.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/package_service.grpc.pb.h"
#include "tunefarm/v1/server_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm::golden {
namespace {

// What the daemon says to jobs of misses that it cannot take.
grpc::Status CheckMissed(const v1::CreateJobRequest& request) {
  if (request.job().kernel() == "gone") return Missing("there is no kernel 'gone'", "KERNEL_NOT_FOUND");
  if (request.job().device_selector() == "gpu-9") return Missing("there is no device 'gpu-9'", "DEVICE_NOT_FOUND");
  for (int i = 0; i < request.job().problems_size(); ++i) {
    const auto n = request.job().problems(i).dims().find("N");
    if (n == request.job().problems(i).dims().end() || n->second.int_value() != 7) continue;
    const std::string which = request.job().problems_size() > 1 ? "problems[" + std::to_string(i) + "]: " : "";
    return Refused(grpc::StatusCode::INVALID_ARGUMENT, which + "N=7 has no valid config: whole chunks removes all",
                   "SPACE_EMPTY");
  }
  return grpc::Status::OK;
}

// The number of "jobs/17..." if there is such a job, else 0.
int KnownJob(const std::string& name) {
  const int number = std::atoi(name.c_str() + std::min<size_t>(name.size(), 5));
  return number >= 17 && number <= 28 ? number : 0;
}

class FakeTuning final : public v1::TuningService::Service {
 public:
  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::CreateJobResponse* response) override {
    if (const grpc::Status checked = CheckMissed(*request); !checked.ok()) return checked;
    MutexLock lock(&mutex_);
    last_create_job_ = *request;
    int number = 17;
    if (request->kernel_definition().display_name() == "faulty" || request->job().kernel() == "faulty") number = 19;
    if (request->job().label() == "endless") number = 21;
    if (request->job().problems_size() > 1) number = 18;
    *response->mutable_job() = JobNumbered(number);
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::GetJobResponse* response) override {
    return Answer(request->name(), response);
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    return Answer(request->name(), response, v1::JOB_STATE_CANCELLING);
  }
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                        v1::PauseJobResponse* response) override {
    return Answer(request->name(), response, v1::JOB_STATE_PAUSED);
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::ResumeJobResponse* response) override {
    return Answer(request->name(), response, v1::JOB_STATE_RUNNING);
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*, v1::DeleteJobResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    for (int number = 20; number >= 17; --number) {
      if (response->jobs_size() == request->page_size()) {
        response->set_next_page_token("more");
        break;
      }
      v1::Job job = JobNumbered(number);
      if (!request->kernel_name().empty() && job.kernel_name() != request->kernel_name()) continue;
      if (!request->label().empty() && job.label() != request->label()) continue;
      job.clear_studies();
      *response->add_jobs() = std::move(job);
    }
    return grpc::Status::OK;
  }
  grpc::Status ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest* request,
                          v1::ListTrialsResponse* response) override {
    const int number = KnownJob(request->parent());
    if (number == 0) return Missing("there is no job " + request->parent(), "JOB_NOT_FOUND");
    // Two trials a page, so that every list takes several.
    std::vector<v1::Trial> trials = TrialsOf(number);
    if (number == 27) trials = GroupedTrials(request->parent().back() - '0');
    if (number != 27 && request->parent().ends_with("/studies/2")) trials.clear();
    const size_t first = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    for (size_t i = first; i < std::min(first + 2, trials.size()); ++i) {
      if (request->purpose() != v1::TRIAL_PURPOSE_UNSPECIFIED && trials[i].purpose() != request->purpose()) continue;
      *response->add_trials() = trials[i];
    }
    if (first + 2 < trials.size()) response->set_next_page_token(std::to_string(first + 2));
    return grpc::Status::OK;
  }
  grpc::Status GetTrial(grpc::ServerContext*, const v1::GetTrialRequest* request,
                        v1::GetTrialResponse* response) override {
    for (const v1::Trial& trial : TrialsOf(KnownJob(request->name()))) {
      if (trial.name() == request->name()) *response->mutable_trial() = trial;
    }
    v1::Trial* trial = response->mutable_trial();
    trial->set_phase(trial->outcome() == v1::OUTCOME_OK ? v1::PHASE_MEASURE : v1::PHASE_VERIFY);
    trial->set_compile_ms(312);
    trial->mutable_resources()->set_binary_bytes(17000);
    trial->mutable_verification()->set_elements(1048576);
    if (trial->outcome() == v1::OUTCOME_WRONG_RESULT) {
      trial->set_log("scale.cc:3: warning: unused variable 'k'\n");
      trial->mutable_verification()->set_mismatches(1);
      trial->mutable_verification()->set_max_absolute_error(1);
      trial->mutable_verification()->set_max_relative_error(0.5);
      v1::Mismatch* mismatch = trial->mutable_verification()->add_first_mismatches();
      mismatch->set_buffer("y");
      mismatch->set_index(7);
      mismatch->set_actual(3);
      mismatch->set_expected(2);
    }
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    const int number = KnownJob(request->name());
    if (number == 0) return Missing("there is no job " + request->name(), "JOB_NOT_FOUND");
    if (number == 21) {
      blocked_.Notify();
      release_.WaitForNotification();
      return grpc::Status::OK;
    }
    for (const v1::JobEvent& event : EventsOf(number)) {
      v1::WatchJobResponse response;
      *response.mutable_event() = event;
      writer->Write(response);
      MutexLock lock(&mutex_);
      if (number == 22 && ++watches_of_22_ == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away");
    }
    return grpc::Status::OK;
  }

  v1::CreateJobRequest last_create_job() const {
    MutexLock lock(&mutex_);
    return last_create_job_;
  }
  Notification* blocked() { return &blocked_; }
  void Release() { release_.Notify(); }

 private:
  template <typename Response>
  static grpc::Status Answer(const std::string& name, Response* response,
                             v1::JobState state = v1::JOB_STATE_UNSPECIFIED) {
    const int number = KnownJob(name);
    if (number == 0) return Missing("there is no job " + name + "; tunefarm jobs list shows all", "JOB_NOT_FOUND");
    *response->mutable_job() = number == 27 ? GroupedJob() : JobNumbered(number);
    if (state != v1::JOB_STATE_UNSPECIFIED) response->mutable_job()->set_state(state);
    return grpc::Status::OK;
  }

  mutable Mutex mutex_;
  v1::CreateJobRequest last_create_job_ GUARDED_BY(mutex_);
  int watches_of_22_ GUARDED_BY(mutex_) = 0;
  Notification blocked_;
  Notification release_;
};

class FakeLookup final : public v1::LookupService::Service {
  grpc::Status LookupConfig(grpc::ServerContext*, const v1::LookupConfigRequest* request,
                            v1::LookupConfigResponse* response) override {
    const auto dim = request->problem().dims().find("N");
    const bool is_given = dim != request->problem().dims().end();
    const auto match = static_cast<v1::Match>(is_given ? dim->second.int_value() : int64_t{v1::MATCH_EXACT});
    if (match == v1::MATCH_NOT_FOUND || match > request->worst_match()) {
      response->set_match(v1::MATCH_NOT_FOUND);
      return grpc::Status::OK;
    }
    response->set_match(match);
    *response->mutable_best() = Best();
    if (request->with_device_class()) *response->mutable_device_class() = Devices()[1].device_class();
    if (match == v1::MATCH_DEFAULT) {
      const v1::Config config = response->best().config();
      response->mutable_best()->Clear();
      *response->mutable_best()->mutable_config() = config;
      return grpc::Status::OK;
    }
    response->set_age_ms(90 * 60 * 1000);
    response->set_catalog_revision(3);
    if (match == v1::MATCH_NEAREST_SHAPE) response->set_distance(1.585);
    if (request->device_selector() == "pinned") *response->mutable_best() = PinnedBest();
    return grpc::Status::OK;
  }
  grpc::Status AgreeConfig(grpc::ServerContext* context, const v1::AgreeConfigRequest* request,
                           v1::AgreeConfigResponse* response) override {
    response->set_agreed_at_ms(1'800'000'000'000);
    response->set_run_begun_at_ms(1'799'999'999'000);
    response->set_run_revision(3);
    return LookupConfig(context, &request->question(), response->mutable_answer());
  }
  grpc::Status BatchLookupConfigs(grpc::ServerContext*, const v1::BatchLookupConfigsRequest* request,
                                  v1::BatchLookupConfigsResponse* response) override {
    // As ever exactly where the first column has 64 or 128.
    if (request->columns().empty()) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no columns");
    for (const int64_t value : request->columns(0).ints()) {
      const bool is_known = value == 64 || value == 128;
      response->add_matches(is_known ? v1::MATCH_EXACT : v1::MATCH_NOT_FOUND);
      response->add_best_indexes(is_known ? 0 : -1);
      response->add_distances(0);
    }
    return grpc::Status::OK;
  }
  grpc::Status ListBestConfigs(grpc::ServerContext*, const v1::ListBestConfigsRequest* request,
                               v1::ListBestConfigsResponse* response) override {
    response->set_catalog_revision(12);
    std::vector<v1::BestConfig> bests = CatalogBests();
    if (request->kernel() == "annotated") {
      bests = {PinnedBest(), PlainBest()};
    } else if (!request->kernel().empty()) {
      bests.erase(std::remove_if(bests.begin(), bests.end(),
                                 [&](const auto& best) { return best.kernel_name() != request->kernel(); }),
                  bests.end());
    }
    // Five a page, so that every list takes several.
    const size_t first = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    for (size_t i = first; i < std::min(first + 5, bests.size()); ++i) *response->add_bests() = bests[i];
    if (first + 5 < bests.size()) response->set_next_page_token(std::to_string(first + 5));
    return grpc::Status::OK;
  }
};

class FakeKernels final : public v1::KernelService::Service {
  grpc::Status CreateKernel(grpc::ServerContext*, const v1::CreateKernelRequest* request,
                            v1::CreateKernelResponse* response) override {
    *response->mutable_kernel() = request->kernel();
    response->mutable_kernel()->set_name("kernels/" + std::string(64, 'b'));
    return grpc::Status::OK;
  }
  grpc::Status GetKernel(grpc::ServerContext*, const v1::GetKernelRequest* request,
                         v1::GetKernelResponse* response) override {
    if (request->name() == "scale_host" || request->name() == "gemm") {
      response->mutable_kernel()->set_program_digest("program");
      return grpc::Status::OK;
    }
    if (request->name() == "tuned") {
      *response->mutable_kernel() = TunedKernel();
      return grpc::Status::OK;
    }
    if (request->name() != "stored") {
      return Missing("there is no kernel '" + request->name() + "'; tunefarm kernels list shows all",
                     "KERNEL_NOT_FOUND");
    }
    *response->mutable_kernel() = StoredKernel();
    return grpc::Status::OK;
  }
  grpc::Status DeleteKernel(grpc::ServerContext*, const v1::DeleteKernelRequest* request,
                            v1::DeleteKernelResponse*) override {
    return request->name() == StoredKernel().name() ? grpc::Status::OK : Missing("no such kernel", "KERNEL_NOT_FOUND");
  }
  grpc::Status ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest*,
                           v1::ListKernelsResponse* response) override {
    *response->add_kernels() = StoredKernel();
    return grpc::Status::OK;
  }
  grpc::Status CountSpace(grpc::ServerContext*, const v1::CountSpaceRequest*,
                          v1::CountSpaceResponse* response) override {
    response->set_device_class_name("Example CPU");
    v1::SpaceSize* space = response->mutable_space();
    space->set_cartesian("806,215,680");
    space->set_valid(1234567);
    space->set_approximate(true);
    v1::RuleCount* rule = space->add_rules();
    rule->set_rule("BLOCK * STEP <= 1024");
    rule->set_reason("one block");
    rule->set_removed(99000);
    space->add_rules()->set_rule("STEP != 3");
    return grpc::Status::OK;
  }
  // Makes a few bytes of any config.
  grpc::Status CompileKernel(grpc::ServerContext*, const v1::CompileKernelRequest* request,
                             v1::CompileKernelResponse* response) override {
    response->set_device_class_name("Example CPU");
    response->set_toolchain("c++: g++ 12.2.0 at /usr/bin/c++");
    for (const v1::Config& config : request->configs()) {
      v1::ConfigCompile* const compiled = response->add_configs();
      *compiled->mutable_config() = config;
      compiled->set_outcome(v1::OUTCOME_OK);
      compiled->set_binary("binary");
      compiled->set_binary_format(v1::BINARY_FORMAT_SHARED_OBJECT);
      compiled->mutable_resources()->set_binary_bytes(6);
      (*compiled->mutable_lowered_names())["scale"] = "scale";
      for (const char* option : {"-O2", "-O3", "-DLIMIT=7"}) compiled->add_compile_options(option);
    }
    return grpc::Status::OK;
  }
};

// A few bytes, and what was asked for as if it had been left out; for "stored" there is no package.
class FakePackages final : public v1::PackageService::Service {
  grpc::Status ExportPackage(grpc::ServerContext*, const v1::ExportPackageRequest* request,
                             grpc::ServerWriter<v1::ExportPackageResponse>* writer) override {
    v1::ExportPackageResponse response;
    v1::PackageContents* const contents = response.mutable_contents();
    std::string asked = "kernel '" + request->kernel() + "', device '" + request->device_class() + "'";
    for (const v1::DimFilter& dim : request->dims()) {
      asked += ", " + dim.dim() + " of";
      for (const std::string& value : dim.values()) asked += " " + value;
    }
    for (const v1::Kernel& definition : request->definitions()) asked += ", definition of " + definition.display_name();
    contents->add_left_out(asked + ": it is only asked for");
    contents->set_left_out_count(request->bests_size() + 1);
    contents->set_bests_without_time(request->bests_size());
    if (request->kernel() == "stored") {
      writer->Write(response);
      return Refused(grpc::StatusCode::FAILED_PRECONDITION, "nothing can be packaged; " + contents->left_out(0),
                     "PACKAGE_EMPTY");
    }
    contents->set_bests(2);
    contents->set_kernels(1);
    contents->set_file_bytes(9);
    writer->Write(response);
    for (const char* const part : {"a pac", "kage"}) {
      response.Clear();
      response.set_data(part);
      writer->Write(response);
    }
    return grpc::Status::OK;
  }
};

class FakeDevices final : public v1::DeviceService::Service {
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    for (const v1::Device& device : Devices()) *response->add_devices() = device;
    return grpc::Status::OK;
  }
};

class FakeServer final : public v1::ServerService::Service {
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    response->set_version(TUNEFARM_VERSION);
    response->set_revision(TUNEFARM_REVISION);
    response->set_pid(4711);
    response->set_started_at_ms(MillisecondsAgo(3 * 3600 + 20 * 60));
    response->set_data_directory("/home/user/.local/share/tunefarm");
    response->add_addresses("unix:/run/user/1000/tunefarm/client.sock");
    response->add_addresses("unix:/run/user/1000/tunefarm/admin.sock");
    response->set_schema_version(1);
    response->set_database_bytes(3 << 20);
    response->set_active_jobs(1);
    response->set_stored_trials(12345);
    response->set_idle_exit_seconds(600);
    response->set_workers(3);
    response->set_resident_bytes(48 << 20);
    response->set_open_files(41);
    response->set_free_disk_bytes(int64_t{80} << 30);
    response->set_free_disk_bytes_min(int64_t{512} << 20);
    response->set_http_address("http://127.0.0.1:7071");
    response->set_dashboard_address("http://127.0.0.1:7072");
    response->set_sandbox_level("L1: private pid namespace, unprivileged uid");
    response->add_toolchains("c++: g++ 12.2.0 at /usr/bin/c++");
    return grpc::Status::OK;
  }
  grpc::Status CreateBackup(grpc::ServerContext*, const v1::CreateBackupRequest* request,
                            v1::CreateBackupResponse* response) override {
    response->set_path("/home/user/.local/share/tunefarm/backups/" + request->file_name());
    response->set_size_bytes(3 << 20);
    return grpc::Status::OK;
  }
  grpc::Status Shutdown(grpc::ServerContext*, const v1::ShutdownRequest*, v1::ShutdownResponse*) override {
    return grpc::Status::OK;
  }
};

}  // namespace

struct FakeDaemon::Services {
  std::string address;
  FakeTuning tuning;
  FakeStudies studies;
  FakeLookup lookup;
  FakeCatalog catalog;
  FakeKernels kernels;
  FakePackages packages;
  FakeDevices devices;
  FakeServer server;
};

FakeDaemon::FakeDaemon(const std::string& socket_path) : services_(std::make_unique<Services>()) {
  services_->address = "unix:" + socket_path;
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(services_->address, grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(&services_->tuning);
  builder.RegisterService(&services_->studies);
  builder.RegisterService(&services_->lookup);
  builder.RegisterService(&services_->catalog);
  builder.RegisterService(&services_->kernels);
  builder.RegisterService(&services_->packages);
  builder.RegisterService(&services_->devices);
  builder.RegisterService(&services_->server);
  server_ = builder.BuildAndStart();
  TUNEFARM_CHECK(server_ != nullptr && bound != 0);
}

FakeDaemon::~FakeDaemon() {
  services_->tuning.Release();
  server_->Shutdown();
}

const std::string& FakeDaemon::address() const { return services_->address; }
v1::CreateJobRequest FakeDaemon::last_create_job() const { return services_->tuning.last_create_job(); }
Notification* FakeDaemon::watch_is_blocked() { return services_->tuning.blocked(); }

}  // namespace tunefarm::golden
