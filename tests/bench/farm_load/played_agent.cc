#include "tests/bench/farm_load/played_agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/random.h"
#include "server/base/status.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

// As the agent's daemon, and as its look-ahead with sixteen compile workers.
constexpr Duration kPoll = std::chrono::milliseconds(1500);
constexpr int kTrialsWanted = 50;
// Without a rate: so much ahead that no device waits for an answer.
constexpr int kTrialsWantedMax = 256;
// With a rate: how often the trials that are due are played, so that a thousand devices cost the load little.
constexpr Duration kPlayPause = std::chrono::milliseconds(400);
constexpr int kUnitsPerDemandMax = 8;
// Without a rate: what 4 ms of short trials are, and how much may be on its way.
constexpr int kTrialsPerReport = 8;
constexpr int64_t kReportsOnTheirWayMax = 64;
constexpr Duration kPause = std::chrono::milliseconds(2);
constexpr int kSamples = 10;

// What a search trial of a CPU looks like, without what the link leaves out anyway: config and samples.
tunefarm::v1::Trial Played(const wire::TrialSpec& spec, const std::string& device_uuid) {
  static const tunefarm::v1::Trial& alike = *[] {
    auto* const trial = new tunefarm::v1::Trial;
    trial->set_attempt(1);
    trial->set_outcome(tunefarm::v1::OUTCOME_OK);
    trial->set_phase(tunefarm::v1::PHASE_MEASURE);
    trial->set_compile_ms(12.5);
    trial->set_run_ms(1.25);
    trial->set_device_busy_ms(0.75);
    trial->set_cached_binary(true);
    trial->mutable_resources()->set_binary_bytes(16384);
    trial->mutable_verification()->set_elements(16);
    auto* const measurement = trial->mutable_measurement();
    measurement->set_samples(kSamples);
    measurement->set_launches_per_sample(4);
    measurement->set_converged(true);
    measurement->set_stop_reason(tunefarm::v1::STOP_REASON_CONVERGED);
    measurement->set_method(tunefarm::v1::TIMING_METHOD_STEADY_CLOCK);
    return trial;
  }();
  tunefarm::v1::Trial trial = alike;
  trial.set_ordinal(spec.ordinal());
  trial.set_purpose(spec.purpose());
  trial.set_device_uuid(device_uuid);
  const double median = 1000 + static_cast<double>((spec.ordinal() * 7919) % 100'000);
  auto* const measurement = trial.mutable_measurement();
  measurement->set_median_ns(median);
  measurement->set_ci_low_ns(median * 0.99);
  measurement->set_ci_high_ns(median * 1.01);
  measurement->set_min_ns(median * 0.98);
  measurement->set_max_ns(median * 1.05);
  measurement->set_mean_ns(median);
  measurement->set_stdev_ns(median * 0.01);
  return trial;
}

std::unique_ptr<ReportSpool> OpenSpool(const PlayedAgentOptions& options) {
  auto spool = ReportSpool::Open(fmt::format("{}/spool-{}", options.directory, options.number), 64 << 20);
  TUNEFARM_CHECK_OK(spool);
  return *std::move(spool);
}

}  // namespace

PlayedAgent::PlayedAgent(const PlayedAgentOptions& options)
    : options_(options),
      agent_id_(NewUuid(EntropySource::Real())),
      device_uuid_("CPU-" + NewUuid(EntropySource::Real())),
      spool_(OpenSpool(options)),
      controls_(options.dial, {options.control}, Clock::Real(), EntropySource::Real()),
      calls_("calls", Clock::Real()),
      reports_("reports", Clock::Real()),
      waits_("waits", Clock::Real()),
      link_({&controls_, spool_.get(), &calls_, &reports_, &waits_}) {}

PlayedAgent::~PlayedAgent() {
  link_.SetWake(nullptr);
  calls_.Stop();
  reports_.Stop();
  waits_.Stop();
}

void PlayedAgent::Start() {
  link_.SetWake([this] { options_.player->Post([this] { Synchronize(); }); });
  options_.player->Post([this] { Register(); });
}

void PlayedAgent::Cancel() { link_.Cancel(); }

void PlayedAgent::Register() {
  wire::RegisterRequest request;
  request.set_agent_id(agent_id_);
  request.set_host(fmt::format("host-{}", options_.number));
  request.set_display_name(fmt::format("played-{}", options_.number));
  request.set_protocol(3);
  request.set_version("0");
  request.set_sandbox_level("L1");
  tunefarm::v1::Device* device = request.add_devices();
  device->set_uuid(device_uuid_);
  auto* device_class = device->mutable_device_class();
  device_class->set_kind(tunefarm::v1::DEVICE_KIND_HOST);
  device_class->set_display_name("Played CPU");
  device_class->set_sm_count(2);
  device_class->set_memory_gib(1);
  device_class->set_compiler("g++ 12.2.0");
  device->set_memory_bytes(int64_t{1} << 30);
  device->set_peak_bytes_per_second(8e9);
  device->set_toolkit_version("12.2.0");
  device->set_state(tunefarm::v1::DEVICE_STATE_READY);
  const auto response = link_.Register(request);
  if (!response.ok()) {
    fmt::print(stderr, "agent {} is not taken: {}\n", options_.number, MessageOf(response.status()));
    options_.player->PostAfter(std::chrono::seconds(1), [this] { Register(); });
    return;
  }
  units_.clear();
  epoch_.store(response->epoch());
  Synchronize();
  if (!std::exchange(ticks_, true)) Tick();
}

void PlayedAgent::Tick() {
  options_.player->PostAfter(kPoll, [this] {
    Synchronize();
    Tick();
  });
}

int PlayedAgent::trials_wanted() const { return options_.rate > 0 ? kTrialsWanted : kTrialsWantedMax; }

int PlayedAgent::trials_in_hand() const {
  int trials = 0;
  for (const Unit& unit : units_) trials += unit.assignment.trials_size() - unit.next;
  return trials;
}

void PlayedAgent::Synchronize() {
  if (epoch_.load() == 0) return;
  while (SynchronizeOnce()) continue;
  if (!units_.empty()) PlaySoon(Duration::zero());
}

bool PlayedAgent::SynchronizeOnce() {
  wire::SynchronizeRequest request;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_.load());
  for (const Unit& unit : units_) {
    wire::UnitInHand* listed = request.add_units();
    listed->set_unit_id(unit.assignment.unit_id());
    listed->set_token(unit.assignment.token());
    listed->set_device_uuid(device_uuid_);
  }
  const int missing = trials_wanted() - trials_in_hand();
  if (missing > 0) {
    wire::DeviceDemand* demand = request.add_demands();
    demand->set_device_uuid(device_uuid_);
    demand->set_units(std::min(kUnitsPerDemandMax, missing));
    demand->set_trials(missing);
  }
  const auto response = link_.Synchronize(request);
  TUNEFARM_CHECK_OK(response);
  if (response->epoch_expired()) {  // as agents do, where many register at once
    units_.clear();
    epoch_.store(0);
    options_.player->PostAfter(Duration::zero(), [this] { Register(); });
    return false;
  }
  for (int64_t unit_id : response->revoked_unit_ids()) {
    std::erase_if(units_, [unit_id](const Unit& unit) { return unit.assignment.unit_id() == unit_id; });
  }
  for (const wire::Assignment& assignment : response->assignments()) units_.push_back({assignment});
  starved_ = response->assignments_size() == 0 && request.demands_size() > 0;
  return response->assignments_size() > 0;
}

void PlayedAgent::PlaySoon(Duration delay) {
  if (std::exchange(play_posted_, true)) return;
  const auto play = [this] {
    play_posted_ = false;
    Play();
  };
  if (delay <= Duration::zero()) {
    options_.player->Post(play);
  } else {
    options_.player->PostAfter(delay, play);
  }
}

void PlayedAgent::Play() {
  if (units_.empty()) return;
  bool takes = true;
  const MonotonicTime now = Clock::Real()->Now();
  if (options_.rate <= 0) {
    takes = link_.counts().reports_sent + kReportsOnTheirWayMax > reported_ && PlaySome(kTrialsPerReport);
  } else {
    const auto each = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / options_.rate));
    // What a device did not do while it had nothing to do, it does not make up for; what the load's own thread was late
    // for, it does.
    due_ = std::max(due_, now - std::chrono::milliseconds(500));
    while (takes && !units_.empty() && due_ <= now) {
      const int due = static_cast<int>((now - due_) / each) + 1;
      const Unit& unit = units_.front();
      const int played = std::min(due, unit.assignment.trials_size() - unit.next);
      takes = PlaySome(played);
      if (takes) due_ += each * played;
    }
  }
  if (!starved_ && trials_in_hand() < trials_wanted()) Synchronize();
  if (units_.empty()) return;
  PlaySoon(!takes ? kPause : options_.rate > 0 ? std::max(due_ - now, kPlayPause) : Duration::zero());
}

bool PlayedAgent::PlaySome(int trials_max) {
  Unit& unit = units_.front();
  const wire::Assignment& assignment = unit.assignment;
  wire::ReportTrialsRequest report;
  report.set_agent_id(agent_id_);
  report.set_epoch(epoch_.load());
  report.set_unit_id(assignment.unit_id());
  report.set_token(assignment.token());
  const int end = std::min(unit.next + trials_max, assignment.trials_size());
  for (int i = unit.next; i < end; ++i) *report.add_trials() = Played(assignment.trials(i), device_uuid_);
  report.set_unit_done(end == assignment.trials_size());
  if (!link_.ReportTrials(report).ok()) return false;
  ++reported_;
  unit.next = end;
  if (report.unit_done()) units_.pop_front();
  return true;
}

}  // namespace tunefarm
