#include "tests/golden/fake_data.h"

#include <google/protobuf/text_format.h>

#include "server/base/check.h"
#include "server/base/clock.h"

namespace tunefarm::golden {
namespace {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  TUNEFARM_CHECK(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

constexpr char kStudyOfScale[] = R"pb(
  name: "jobs/17/studies/1"
  problem {
    dims {
      key: "N"
      value { int_value: 1048576 }
    }
    key: "N=1048576"
  }
  device_class_id: "cpu-1"
  device_class_name: "Example CPU"
  space {
    cartesian: "36"
    valid: 35
    rules { rule: "CHUNK % UNROLL == 0" reason: "whole unrolled steps" removed: 1 }
    rules { rule: "CHUNK <= device.l1_bytes" }
  }
  progress {
    total: 6
    done: 6
    outcomes { outcome: OUTCOME_OK count: 4 }
    outcomes { outcome: OUTCOME_WRONG_RESULT count: 1 }
    outcomes { outcome: OUTCOME_RUN_CRASH count: 1 }
  }
  incumbent {
    config {
      values {
        key: "CHUNK"
        value { int_value: 8192 }
      }
      values {
        key: "UNROLL"
        value { int_value: 4 }
      }
    }
    purpose: TRIAL_PURPOSE_FINALIST
    measurement { median_ns: 41200 }
  }
  baseline {
    config {
      values {
        key: "CHUNK"
        value { int_value: 4096 }
      }
      values {
        key: "UNROLL"
        value { int_value: 1 }
      }
    }
    purpose: TRIAL_PURPOSE_BASELINE
    measurement { median_ns: 95000 ci_low_ns: 94000 ci_high_ns: 96500 samples: 100 }
  }
  best {
    config {
      values {
        key: "CHUNK"
        value { int_value: 8192 }
      }
      values {
        key: "UNROLL"
        value { int_value: 4 }
      }
    }
    measurement { median_ns: 41200 }
    baseline_ns: 95000
    baseline_label: "default config"
    ordinal: 7
  }
  state: STUDY_STATE_ENDED
  flops: 1048576
  bytes: 8388608
  floor_ns: 30000
)pb";

// Of every job's first trial; never shown as an age.
constexpr int64_t kStartedAtMs = 1'700'000'000'000;

std::string Trial(int job, int ordinal, const std::string& purpose, const std::string& outcome, int chunk, int unroll,
                  double median_ns) {
  std::string text =
      "name: 'jobs/" + std::to_string(job) + "/studies/1/trials/" + std::to_string(ordinal) +
      "' ordinal: " + std::to_string(ordinal) + " purpose: TRIAL_PURPOSE_" + purpose + " outcome: OUTCOME_" + outcome +
      " config { values { key: 'CHUNK' value { int_value: " + std::to_string(chunk) +
      " } } values { key: 'UNROLL' value { int_value: " + std::to_string(unroll) +
      " } } } resources { registers: 24 } ended_at_ms: " + std::to_string(kStartedAtMs + 1500 * (ordinal + 1)) + " ";
  if (median_ns > 0) {
    // The slowest is left early, the fastest has all that can be said of a measurement.
    std::string how;
    if (median_ns > 120000) {
      text += "stopped_early: true ";
      how = "stop_reason: STOP_REASON_LOSING method: TIMING_METHOD_CUDA_EVENTS";
    } else if (median_ns < 42000) {
      text += "device_busy_ms: 12.5 ";
      how =
          "converged: true stop_reason: STOP_REASON_CONVERGED cold_cache: true method: TIMING_METHOD_CUDA_GRAPH "
          "input_copies: 4 clock_mhz: 1755 power_watts: 512.4 temperature_c: 61 throttle_reason: 'power cap' "
          "throttled: true discarded_samples: 3";
    }
    text += "measurement { samples: 100 median_ns: " + std::to_string(median_ns) +
            " ci_low_ns: " + std::to_string(0.995 * median_ns) + " ci_high_ns: " + std::to_string(1.005 * median_ns) +
            " " + how + " }";
  }
  return text;
}

v1::Trial Explained(v1::Trial trial, const std::string& message) {
  trial.set_message(message);
  return trial;
}

}  // namespace

int64_t MillisecondsAgo(int64_t seconds) { return Clock::Real()->WallMs() - seconds * 1000; }

std::vector<v1::Device> Devices() {
  return {Parse<v1::Device>(R"pb(
            name: "devices/GPU-1"
            uuid: "GPU-1"
            device_class {
              id: "gpu-1"
              kind: DEVICE_KIND_CUDA
              display_name: "Example GPU"
              compute_capability: 90
              sm_count: 132
              shared_bytes_per_block_optin: 232448
              l2_bytes: 52428800
              memory_gib: 80
            }
            driver_version: "580.1"
            toolkit_version: "13.0"
            state: DEVICE_STATE_QUARANTINED
            state_reason: "3 workers died in a row"
          )pb"),
          Parse<v1::Device>(R"pb(
            name: "devices/CPU-1"
            uuid: "CPU-1"
            device_class {
              id: "cpu-1"
              kind: DEVICE_KIND_HOST
              display_name: "Example CPU"
              sm_count: 8
              l2_bytes: 33554432
              memory_gib: 64
              compiler: "g++ 12.2.0"
            }
            state: DEVICE_STATE_READY
          )pb")};
}

v1::Job JobNumbered(int number) {
  v1::Job job;
  job.set_name("jobs/" + std::to_string(number));
  job.set_kernel_name("scale_host");
  job.mutable_strategy()->set_strategy_name("exhaustive");
  job.mutable_strategy()->set_seed(1);
  job.set_created_at_ms(MillisecondsAgo(90 * 60));
  job.set_started_at_ms(kStartedAtMs);
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  v1::Study* study = job.add_studies();
  *study = Parse<v1::Study>(kStudyOfScale);
  if (number == 17) *job.mutable_summary() = Parse<v1::JobSummary>("gain: 2.311 floor_share: 0.4 failed_share: 0.3333");
  if (number == 18) {
    job.set_state(v1::JOB_STATE_RUNNING);
    job.set_label("nightly");
    study->clear_best();
    study->clear_baseline();
    study->mutable_incumbent()->set_purpose(v1::TRIAL_PURPOSE_SEARCH);
    study->mutable_progress()->set_total(35);
    study->set_state(v1::STUDY_STATE_SEARCHING);
    job.mutable_summary()->set_failed_share(2.0 / 6);
    *job.add_studies() = *study;
    job.mutable_studies(1)->mutable_problem()->set_key("N=4096");
    job.mutable_studies(1)->mutable_progress()->clear_outcomes();
    job.mutable_studies(1)->mutable_progress()->set_done(0);
    job.mutable_studies(1)->clear_incumbent();
    job.mutable_studies(1)->mutable_space()->set_approximate(true);
  }
  if (number == 19) {
    job.set_kernel_name("faulty");
    job.mutable_summary()->set_failed_share(1);
    study->clear_best();
    study->clear_baseline();
    study->clear_incumbent();
    *study->mutable_progress() = Parse<v1::Progress>(
        "total: 3 done: 3 outcomes { outcome: OUTCOME_RUN_CRASH count: 1 } "
        "outcomes { outcome: OUTCOME_WRONG_RESULT count: 2 }");
  }
  if (number == 20) {
    job.set_state(v1::JOB_STATE_FAILED);
    job.set_error("the device GPU-1 is quarantined: 3 workers died in a row");
  }
  // As it is after a final that had to be repeated with the best of before, which stays (24) or is beaten (25).
  if (number == 24 || number == 25) {
    const v1::Trial best = TrialsOf(number)[number == 24 ? 10 : 9];
    *study->mutable_best()->mutable_config() = best.config();
    *study->mutable_best()->mutable_measurement() = best.measurement();
    study->mutable_best()->set_ordinal(best.ordinal());
    if (number == 24) study->set_kept_because("the best stays: round by round no finalist was faster");
  }
  if (number == 28) {
    job.set_objective(v1::OBJECTIVE_ENERGY);
    const v1::Trial best = TrialsOf(number)[9];
    *study->mutable_best()->mutable_config() = best.config();
    *study->mutable_best()->mutable_measurement() = best.measurement();
    study->mutable_best()->set_ordinal(best.ordinal());
    study->set_kept_because("trial 9 needs 0.733 of the energy of the fastest, trial 7 (95 % interval 0.725 to 0.742)");
    study->set_not_promoted_because("the job's objective is energy; only winners by time are filed");
  }
  if (number == 26) {
    job.set_state(v1::JOB_STATE_CANCELLED);
    study->clear_best();
    study->clear_baseline();
  }
  for (int i = 0; i < job.studies_size(); ++i) {
    job.mutable_studies(i)->set_name(job.name() + "/studies/" + std::to_string(i + 1));
    *job.add_problems() = job.studies(i).problem();
    job.mutable_progress()->set_total(job.progress().total() + job.studies(i).progress().total());
    job.mutable_progress()->set_done(job.progress().done() + job.studies(i).progress().done());
  }
  return job;
}

// A whole search: every CHUNK and UNROLL in an order that jumps about, five times each. Small chunks are slow, more so
// with little unrolling; the largest crash where they are unrolled by 8.
std::vector<v1::Trial> LongSearch(int number) {
  constexpr int kChunks[] = {256, 512, 1024, 4096, 8192, 65536}, kUnrolls[] = {1, 2, 4, 8};
  std::vector<v1::Trial> trials;
  for (int i = 0; i < 120; ++i) {
    const int at = 7 * i % 120;
    const int chunk = kChunks[at % 6], unroll = kUnrolls[at / 6 % 4], repeat = at / 24;
    const bool crashes = chunk == 65536 && unroll == 8;
    const double ns = 30000 + 2e7 / chunk + 6e7 / (chunk * unroll) + 1000 * repeat;
    trials.push_back(
        Parse<v1::Trial>(Trial(number, i, "SEARCH", crashes ? "RUN_CRASH" : "OK", chunk, unroll, crashes ? 0 : ns)));
    if (crashes) trials.back().set_message("SIGSEGV, read of address 0x" + std::to_string(1000 + i));
  }
  return trials;
}

std::vector<v1::Trial> TrialsOf(int number) {
  const auto trial = [&](int ordinal, const char* purpose, const char* outcome, int chunk, int unroll, double ns) {
    return Parse<v1::Trial>(Trial(number, ordinal, purpose, outcome, chunk, unroll, ns));
  };
  if (number == 23) return LongSearch(number);
  if (number == 19) {
    return {
        Explained(trial(0, "SEARCH", "WRONG_RESULT", 256, 1, 0), "y[7] is 3, expected 2"),
        Explained(trial(1, "SEARCH", "WRONG_RESULT", 512, 1, 0), "y[7] is 3, expected 2"),
        Explained(trial(2, "SEARCH", "RUN_CRASH", 1024, 1, 0), "SIGSEGV, \"read\" of address 0x0\nbacktrace:\n  ...")};
  }
  std::vector<v1::Trial> trials = {
      trial(0, "BASELINE", "OK", 4096, 1, 95000),
      trial(1, "SEARCH", "OK", 256, 1, 140000),
      trial(2, "SEARCH", "OK", 4096, 2, 61000),
      trial(3, "SEARCH", "OK", 8192, 4, 41900),
      trial(4, "SEARCH", "OK", 8192, 8, 42100),
      Explained(trial(5, "SEARCH", "WRONG_RESULT", 65536, 8, 0), "y[7] is 3, expected 2"),
      Explained(trial(6, "SEARCH", "RUN_CRASH", 65536, 4, 0), "SIGSEGV, read of address 0x0"),
      trial(7, "FINALIST", "OK", 8192, 4, 41200),
      trial(8, "FINALIST", "OK", 8192, 8, 41500)};
  if (number == 24 || number == 25) {
    trials.push_back(trial(9, "FINALIST", "OK", 8192, 4, 41300));
    trials.push_back(trial(10, "FINALIST", "OK", 4096, 8, 41400));
  }
  if (number == 28) {
    trials.push_back(trial(9, "FINALIST", "OK", 4096, 8, 47000));
    trials.push_back(trial(10, "FINALIST", "OK", 4096, 4, 48000));
    trials.push_back(trial(11, "FINALIST", "OK", 1024, 4, 52000));
    const double millijoules[] = {20.5, 18.2, 15.03, 19};
    for (size_t i = 0; i < std::size(millijoules); ++i) {
      v1::Energy* const energy = trials[7 + i].mutable_measurement()->mutable_energy();
      energy->set_millijoules(millijoules[i]);
      energy->set_ci_low_millijoules(0.995 * millijoules[i]);
      energy->set_ci_high_millijoules(1.005 * millijoules[i]);
      energy->set_batches(3);
      energy->set_batch_seconds(2.03);
      energy->set_power_watts(500 + 10.0 * static_cast<double>(i));
      energy->set_idle_power_watts(78.4);
    }
    trials.back().mutable_measurement()->mutable_energy()->set_missing_because("the device has no energy counter");
  }
  return trials;
}

std::vector<v1::JobEvent> EventsOf(int number) {
  std::vector<v1::JobEvent> events;
  v1::Progress progress;
  const auto add = [&]() -> v1::JobEvent* {
    events.emplace_back();
    events.back().set_event_id(static_cast<int64_t>(events.size()));
    *events.back().mutable_progress() = progress;
    events.back().set_study("jobs/" + std::to_string(number) + "/studies/1");
    return &events.back();
  };
  v1::Job begun = JobNumbered(number);
  begun.set_state(v1::JOB_STATE_RUNNING);
  const int64_t total = begun.progress().total();
  begun.mutable_progress()->Clear();
  begun.mutable_progress()->set_total(total);
  begun.mutable_studies(0)->clear_incumbent();
  begun.mutable_studies(0)->clear_baseline();
  begun.mutable_studies(0)->clear_best();
  progress = begun.progress();
  *add()->mutable_job() = begun;
  for (const v1::Trial& trial : TrialsOf(number)) {
    if (trial.purpose() == v1::TRIAL_PURPOSE_SEARCH) {
      progress.set_done(progress.done() + 1);
      progress.set_eta_ms(1000 * (total - progress.done()));
      v1::OutcomeCount* counted = nullptr;
      for (v1::OutcomeCount& count : *progress.mutable_outcomes()) {
        if (count.outcome() == trial.outcome()) counted = &count;
      }
      if (counted == nullptr) counted = progress.add_outcomes();
      counted->set_outcome(trial.outcome());
      counted->set_count(counted->count() + 1);
    } else if (trial.purpose() == v1::TRIAL_PURPOSE_FINALIST) {
      progress.set_finals_total(2);
      progress.set_finals_done(progress.finals_done() + 1);
    }
    if (trial.outcome() == v1::OUTCOME_RUN_CRASH) {
      add()->set_message("A worker was restarted after a crash.");
    }
    *add()->mutable_trial_ended() = trial;
  }
  *add()->mutable_study_changed() = JobNumbered(number).studies(0);
  return events;
}

std::vector<v1::Miss> Misses() {
  std::vector<v1::Miss> misses;
  const auto add = [&misses](const std::string& kernel, int64_t n, const std::string& class_id,
                             const std::string& class_name, int64_t count, v1::Match match, double distance) {
    v1::Miss& miss = misses.emplace_back();
    miss.set_kernel_name(kernel);
    (*miss.mutable_problem()->mutable_dims())["N"].set_int_value(n);
    miss.mutable_problem()->set_key("N=" + std::to_string(n));
    miss.set_device_class_id(class_id);
    miss.set_device_class_name(class_name);
    miss.set_count(count);
    miss.set_match(match);
    miss.set_distance(distance);
    miss.set_first_asked_at_ms(MillisecondsAgo(3 * 24 * 3600));
    miss.set_last_asked_at_ms(MillisecondsAgo(90 * 60));
  };
  add("scale_host", 4096, "cpu-1", "Example CPU", 12345, v1::MATCH_NEAREST_SHAPE, 1.584962500721156);
  add("faulty", 64, "cpu-1", "Example CPU", 17, v1::MATCH_DEFAULT, 0);
  add("gone", 64, "cpu-1", "Example CPU", 9, v1::MATCH_STALE_SOURCE, 0);
  add("scale_host", 7, "cpu-1", "Example CPU", 3, v1::MATCH_NOT_FOUND, 0);
  add("scale_host", 4096, "gpu-9", "Retired GPU", 1, v1::MATCH_SAME_ARCH, 0);
  return misses;
}

v1::BestConfig Best() {
  return Parse<v1::BestConfig>(R"pb(
    kernel_name: "scale_host"
    problem { key: "N=1048576" }
    device_class_id: "cpu-1"
    device_class_name: "Example CPU"
    config {
      values {
        key: "CHUNK"
        value { int_value: 8192 }
      }
      values {
        key: "FAST"
        value { bool_value: true }
      }
      values {
        key: "MODE"
        value { string_value: "wide" }
      }
      values {
        key: "RATIO"
        value { double_value: 0.5 }
      }
    }
    measurement { median_ns: 41200 ci_low_ns: 41000 ci_high_ns: 41400 samples: 100 }
    baseline_ns: 95000
    job: "jobs/17"
    ordinal: 7
    revision: 3
    flops: 1048576
    bytes: 8388608
    floor_ns: 30000
  )pb");
}

v1::Kernel TunedKernel() {
  return Parse<v1::Kernel>(R"pb(
    name: "kernels/0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab4567"
    display_name: "tuned"
    language: LANGUAGE_HOST_CXX
    sources {
      path: "tuned.cc"
      content: "#include <cstddef>\nextern \"C\" void scale(const float* x, float* y, long n);\n"
    }
    compile_options: "-O3"
    compile_options: "-DLIMIT=7"
    dims {
      name: "N"
      default_value { int_value: 1048576 }
    }
    dims {
      name: "WIDTH"
      default_value { int_value: 4 }
      bind: BIND_COMPILE
    }
    parameters {
      name: "CHUNK"
      powers_of_two { first: 256 last: 65536 }
    }
    parameters {
      name: "FAST"
      values { bools: false bools: true }
    }
    parameters {
      name: "MODE"
      values { strings: "wide" strings: "tall" }
    }
    parameters {
      name: "RATIO"
      values { doubles: 0.25 doubles: 0.5 }
      bind: BIND_RUN
    }
    derived { name: "STEP" expression: "CHUNK * WIDTH" bind: BIND_COMPILE }
    derived { name: "STEPS" expression: "ceil_div(N, STEP)" }
    arguments {
      name: "x"
      buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
    }
    arguments {
      name: "y"
      buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
    }
    arguments {
      name: "n"
      scalar { data_type: DATA_TYPE_I64 value: "STEPS * STEP" }
    }
    launches { kernel { entry: "scale" arguments: "x" arguments: "y" arguments: "n" } }
    unverified_reason: "nobody runs it"
  )pb");
}

v1::Kernel StoredKernel() {
  return Parse<v1::Kernel>(R"pb(
    name: "kernels/0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab0123"
    display_name: "stored"
    description: "A kernel that only the daemon knows."
    language: LANGUAGE_CUDA
    dims { name: "M" description: "rows" }
    dims {
      name: "N"
      default_value { int_value: 1024 }
      description: "columns"
    }
    parameters {
      name: "BLOCK"
      powers_of_two { first: 32 last: 1024 }
      default_value { int_value: 128 }
      description: "threads"
    }
    parameters {
      name: "STEP"
      range { first: 1 last: 9 step: 2 }
    }
    parameters {
      name: "MODE"
      values { strings: "wide" strings: "tall" }
    }
    constraints { expression: "BLOCK * STEP <= 1024" reason: "one block" }
    constraints { expression: "STEP != 3" }
    starting_configs: "BLOCK=256,STEP=1,MODE=tall"
  )pb");
}

}  // namespace tunefarm::golden
