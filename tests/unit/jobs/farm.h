// A whole farm in one process and on one fake clock: control plane, a link that serialises every call, agent,
// an evaluator that only plays (scripted, unless the test has its own) and a real database. Tests move it by hand.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/agent/agent.h"
#include "server/agent/agent_data_files.h"
#include "server/agent/serializing_link.h"
#include "server/base/check.h"
#include "server/data_files/data_file_store.h"
#include "server/device/device_class.h"
#include "server/records/named_data_files.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/fake_evaluator.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/jobs/hooked_store.h"
#include "tests/unit/jobs/test_service.h"

namespace tunefarm {

// N in 64..., two parameters A (4 values) and B (3 values), one constraint that removes (A=8, B=3): 11 configs.
inline tunefarm::v1::Kernel TestKernel(bool baseline = false, const std::string& name = "scale") {
  const std::string steps = baseline ? R"pb(baseline {
                                              label: "plain loop"
                                              steps {
                                                kernel {
                                                  entry: "plain"
                                                  arguments: [ "x", "y" ]
                                                }
                                              }
                                            })pb"
                                     : "";
  auto kernel = ParseKernelText("display_name: \"" + name + "\"" + R"pb(
                                      language: LANGUAGE_HOST_CXX
                                      sources { path: "scale.cc" }
                                      dims {
                                        name: "N"
                                        default_value { int_value: 1024 }
                                        lookup: LOOKUP_RULE_LOG
                                      }
                                      parameters {
                                        name: "A"
                                        values { ints: [ 1, 2, 4, 8 ] }
                                      }
                                      parameters {
                                        name: "B"
                                        values { ints: [ 1, 2, 3 ] }
                                      }
                                      constraints { expression: "not (A == 8 and B == 3)" reason: "too much" }
                                      arguments {
                                        name: "x"
                                        buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
                                      }
                                      arguments {
                                        name: "y"
                                        buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
                                      }
                                      launches {
                                        kernel {
                                          entry: "scale"
                                          arguments: [ "x", "y" ]
                                        }
                                      }
                                      reference {
                                        steps {
                                          kernel {
                                            entry: "plain"
                                            arguments: [ "x", "y" ]
                                          }
                                        }
                                      }
                                    )pb" +
                                    steps,
                                "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  kernel->mutable_sources(0)->set_content("extern \"C\" void scale(const float*, float*) {}");
  return *kernel;
}

// values^4 configs.
inline tunefarm::v1::Kernel FourParameterKernel(int values = 8) {
  tunefarm::v1::Kernel kernel = TestKernel();
  kernel.clear_parameters();
  kernel.clear_constraints();
  for (const char* name : {"A", "B", "C", "D"}) {
    auto* parameter = kernel.add_parameters();
    parameter->set_name(name);
    parameter->mutable_range()->set_first(1);
    parameter->mutable_range()->set_last(values);
  }
  return kernel;
}

inline tunefarm::v1::Device HostDevice(const std::string& uuid = "HOST-1") {
  tunefarm::v1::Device device;
  device.set_uuid(uuid);
  auto* device_class = device.mutable_device_class();
  device_class->set_kind(tunefarm::v1::DEVICE_KIND_HOST);
  device_class->set_display_name("Test CPU");
  device_class->set_sm_count(2);
  device_class->set_memory_gib(1);
  device_class->set_compiler("g++ 12.2.0");
  device.set_memory_bytes(int64_t{1} << 30);
  device.set_peak_bytes_per_second(8.192e9);
  device.set_toolkit_version("12.2.0");
  device.set_state(tunefarm::v1::DEVICE_STATE_READY);
  return device;
}

// N in 64..., one parameter.
inline tunefarm::v1::Kernel TritonKernel() {
  auto kernel = ParseKernelText(R"pb(
                                  display_name: "product"
                                  language: LANGUAGE_TRITON
                                  sources { path: "product.py" }
                                  dims {
                                    name: "N"
                                    default_value { int_value: 1024 }
                                  }
                                  parameters {
                                    name: "BLOCK"
                                    values { ints: [ 64, 128 ] }
                                  }
                                  arguments {
                                    name: "y"
                                    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
                                  }
                                  launches { kernel { entry: "product" grid: "ceil_div(N, BLOCK)" arguments: "y" } }
                                  unverified_reason: "it never runs"
                                )pb",
                                "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  kernel->mutable_sources(0)->set_content("import triton");
  return *kernel;
}

// `triton`: the release that compiles for it, or nothing.
inline tunefarm::v1::Device GpuDevice(const std::string& uuid, const std::string& triton) {
  tunefarm::v1::Device device;
  device.set_uuid(uuid);
  *device.mutable_device_class() = FindKnownClass("H100")->ToProto();
  device.set_state(tunefarm::v1::DEVICE_STATE_READY);
  device.set_triton_version(triton);
  return device;
}

inline tunefarm::v1::Problem TestProblem(int64_t n) {
  tunefarm::v1::Problem problem;
  (*problem.mutable_dims())["N"].set_int_value(n);
  return problem;
}

// A run that takes so long.
inline FakeEvaluator::Script Timed(double ns) {
  FakeEvaluator::Script script;
  script.median_ns = ns;
  return script;
}

// A=4,B=2 is fastest; the time grows with the distance from it.
inline FakeEvaluator::Script Bowl(const FakeEvaluator::Question& question) {
  if (question.config == "baseline") return Timed(5000);
  const int a = question.config[2] - '0', b = question.config[6] - '0';
  return Timed(1000 + 100 * std::abs(a - 4) + 10 * std::abs(b - 2));
}

// Passes tasks on to an executor, but for those that a test holds back.
class HoldableRunner : public TaskRunner {
 public:
  explicit HoldableRunner(Executor* executor) : executor_(executor) {}
  void Post(std::function<void()> task) override {
    if (holds_next_) {
      holds_next_ = false;
      held_ = std::move(task);
    } else {
      executor_->Post(std::move(task));
    }
  }
  // Held apart where the test wants that.
  void PostSlow(std::string owner, std::function<void()> task) override {
    if (holds_slow_) {
      held_slow_.emplace_back(std::move(owner), std::move(task));
    } else {
      executor_->Post(std::move(task));
    }
  }
  void HoldSlow() { holds_slow_ = true; }
  // The owners of slow tasks that are held.
  std::vector<std::string> slow_owners() const {
    std::vector<std::string> owners;
    for (const auto& [owner, task] : held_slow_) owners.push_back(owner);
    return owners;
  }
  void ReleaseSlow() {
    holds_slow_ = false;
    for (auto& [owner, task] : std::exchange(held_slow_, {})) executor_->Post(std::move(task));
  }
  void HoldNext() { holds_next_ = true; }
  bool is_holding() const { return held_ != nullptr; }
  void Release() { executor_->Post(std::exchange(held_, nullptr)); }

 private:
  Executor* const executor_;
  bool holds_next_ = false;
  std::function<void()> held_;
  bool holds_slow_ = false;
  std::vector<std::pair<std::string, std::function<void()>>> held_slow_;
};

class Farm {
 public:
  // What stands for compilers and devices, anew at each Boot.
  using EvaluatorMaker = std::function<std::unique_ptr<Evaluator>(Executor* executor, TestService* service)>;

  explicit Farm(const std::string& directory, std::vector<tunefarm::v1::Device> devices = {HostDevice()},
                int compile_slots = 2)
      : Farm(directory, std::move(devices), [this, compile_slots](Executor* executor, TestService*) {
          auto fake = std::make_unique<FakeEvaluator>(executor, compile_slots);
          fake->set_scripter(scripter);
          fake_ = fake.get();
          return fake;
        }) {}
  Farm(const std::string& directory, std::vector<tunefarm::v1::Device> devices, EvaluatorMaker make_evaluator)
      : store_path_(directory + "/tunefarm.db"),
        backups_(directory),
        devices_(std::move(devices)),
        make_evaluator_(std::move(make_evaluator)) {
    Boot();
  }
  ~Farm() { Crash(); }

  // Everything in memory comes up again over the same database.
  void Boot() {
    auto store = OpenSqliteStore({store_path_, backups_});
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
    hooked_store = std::make_unique<HookedStore>(store_.get());
    if (!data_file_options.path.empty()) {
      data_file_options.clock = &clock;
      data_file_options.named = [this] { return NamedDataFiles(store_->kernels()); };
      auto files = DataFileStore::Open(data_file_options);
      TUNEFARM_CHECK_OK(files);
      data_files_ = *std::move(files);
      agent_data_files_ = std::make_unique<AgentDataFiles>(data_files_.get());
    }
    control_ = std::make_unique<ManualExecutor>(&clock);
    job_watchers_ = std::make_unique<ManualExecutor>(&clock);
    search_ = std::make_unique<ManualExecutor>(&clock);
    tasks_ = std::make_unique<HoldableRunner>(search_.get());
    agent_executor_ = std::make_unique<ManualExecutor>(&clock);
    evaluator_executor_ = std::make_unique<ManualExecutor>(&clock);
    ControlPlaneOptions options;
    options.store = hooked_store.get();
    options.job_watchers = job_watchers_.get();
    options.control = options.watchers = options.lease = control_.get();
    options.tasks = tasks_.get();
    options.entropy = &entropy;
    options.data_files = data_files_.get();
    options.limits = limits;
    options.abilities = abilities;
    options.node = PermanentNode(NewUuid(&entropy));
    TUNEFARM_CHECK_OK(ReleaseEarlierProcess(hooked_store.get(), &clock));
    service_ = std::make_unique<TestService>(options);
    TUNEFARM_CHECK_OK(service_->SetDevices(devices_));
    TUNEFARM_CHECK_OK(service_->Start());
    TUNEFARM_CHECK_OK(service_->tuning_api().PauseWhatCannotRun());
    link_ = std::make_unique<SerializingLink>(&service_->link());
    evaluator_ = make_evaluator_(evaluator_executor_.get(), service_.get());
    AgentOptions agent{link_.get(), evaluator_.get(), agent_executor_.get(),
                       &entropy,    "here",           service_->devices().List()};
    agent.data_files = agent_data_files_.get();
    agent_ = std::make_unique<Agent>(agent);
    agent_->Start();
  }

  // Drops everything in memory without a word, as SIGKILL does: tasks that wait are never run, nothing reaches the
  // store.
  void Crash() {
    agent_ = nullptr;
    agent_executor_ = nullptr;
    evaluator_executor_ = nullptr;
    tasks_ = nullptr;
    search_ = nullptr;
    control_ = nullptr;
    job_watchers_ = nullptr;
    evaluator_ = nullptr;
    link_ = nullptr;
    service_ = nullptr;
    agent_data_files_ = nullptr;
    data_files_ = nullptr;
    hooked_store = nullptr;
    store_ = nullptr;
  }

  // What the scheduler has to do now, and nothing else: agents stand still.
  void RunControl() {
    while (control_->RunOne() || search_->RunOne() || job_watchers_->RunOne()) continue;
  }

  // One task of one executor, in turn. False when nothing is ready.
  bool StepOnce() {
    const std::vector<ManualExecutor*> all = executors();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[turn_++ % all.size()]->RunOne()) return true;
    }
    return false;
  }

  // From within a task: what everybody else does meanwhile, for some time. False when nothing happens any more.
  bool StepOthers() {
    for (ManualExecutor* executor : {control_.get(), agent_executor_.get(), evaluator_executor_.get()}) {
      if (executor->RunOne()) return true;
    }
    const auto due = evaluator_executor_->NextDue();
    if (!due.has_value()) return false;
    clock.AdvanceTo(*due);
    return true;
  }

  // Runs one task that is ready, or goes to the next timer. False where there is none until `end`.
  bool Step(MonotonicTime end = MonotonicTime::max()) {
    if (StepOnce()) return true;
    std::optional<MonotonicTime> due;
    for (const ManualExecutor* executor : executors()) {
      const auto own = executor->NextDue();
      if (own.has_value() && (!due.has_value() || *own < *due)) due = own;
    }
    if (!due.has_value() || *due > end) return false;
    clock.AdvanceTo(*due);
    return true;
  }

  // False when nothing more happens, or a whole `limit` of fake time has passed.
  template <typename Condition>
  bool RunUntil(Condition condition, Duration limit = std::chrono::minutes(10)) {
    const MonotonicTime end = clock.Now() + limit;
    while (!condition()) {
      if (!Step(end)) return false;
    }
    return true;
  }

  void RunFor(Duration time) {
    const MonotonicTime end = clock.Now() + time;
    RunUntil([] { return false; }, time);
    clock.AdvanceTo(end);
  }

  std::string SubmitJob(const std::vector<int64_t>& sizes, const tunefarm::v1::Kernel& kernel = TestKernel(),
                        tunefarm::v1::Job job = {}) {
    for (int64_t n : sizes) *job.add_problems() = TestProblem(n);
    const auto submitted = service_->Submit(job, kernel, "", false);
    TUNEFARM_CHECK_OK(submitted);
    return submitted->name();
  }

  tunefarm::v1::Job Job(const std::string& name) {
    auto job = service_->GetJob(name);
    TUNEFARM_CHECK_OK(job);
    return *job;
  }

  bool Ended(const std::string& name) {
    const auto state = Job(name).state();
    return state == tunefarm::v1::JOB_STATE_SUCCEEDED || state == tunefarm::v1::JOB_STATE_FAILED ||
           state == tunefarm::v1::JOB_STATE_CANCELLED;
  }

  bool Finish(const std::string& name) {
    return RunUntil([&] { return Ended(name); });
  }

  // All trials of a job, by study and ordinal.
  std::vector<tunefarm::v1::Trial> Trials(const std::string& name) {
    tunefarm::v1::ListTrialsRequest request;
    request.set_parent(name);
    request.set_page_size(1000);
    const auto response = service_->tuning_api().ListTrials(request);
    TUNEFARM_CHECK_OK(response);
    return {response->trials().begin(), response->trials().end()};
  }

  TestService& service() { return *service_; }
  Store& store() { return *store_; }
  // The scripted one; not where the test has its own.
  FakeEvaluator& evaluator() { return *fake_; }
  DataFileStore& data_files() { return *data_files_; }
  Agent& agent() { return *agent_; }
  HoldableRunner& tasks() { return *tasks_; }

  FakeClock clock;
  FakeEntropy entropy;
  FakeEvaluator::Scripter scripter;
  bool holds_job_watchers = false;         // watchers of jobs are told nothing
  JobLimits limits;                        // from the next Boot on, as the next two
  DataFileStoreOptions data_file_options;  // without a path it keeps no data files
  WorkerAbilities abilities;
  std::unique_ptr<HookedStore> hooked_store;  // what the service uses

 private:
  std::vector<ManualExecutor*> executors() const {
    std::vector<ManualExecutor*> all = {control_.get(), search_.get(), agent_executor_.get(),
                                        evaluator_executor_.get()};
    if (!holds_job_watchers) all.push_back(job_watchers_.get());
    return all;
  }

  const std::string store_path_, backups_;
  const std::vector<tunefarm::v1::Device> devices_;
  const EvaluatorMaker make_evaluator_;
  uint64_t turn_ = 0;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ManualExecutor> control_, job_watchers_, search_, agent_executor_, evaluator_executor_;
  std::unique_ptr<HoldableRunner> tasks_;
  std::unique_ptr<DataFileStore> data_files_;
  std::unique_ptr<AgentDataFiles> agent_data_files_;
  std::unique_ptr<TestService> service_;
  std::unique_ptr<SerializingLink> link_;
  std::unique_ptr<Evaluator> evaluator_;
  FakeEvaluator* fake_ = nullptr;
  std::unique_ptr<Agent> agent_;
};

}  // namespace tunefarm
