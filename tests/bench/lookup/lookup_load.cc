// Asks a daemon for best configs, over gRPC, and prints how many answers came a second and how long they took.
//
// Without --rate, --outstanding questions are open at all times. With it, questions are sent at that rate whatever
// becomes of those before, and a time counts from when its question was due: a server that stalls cannot hide it.
#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/base/random.h"
#include "tests/bench/lookup/shapes.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"

namespace tunefarm {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct LoadOptions {
  std::string address, device = "host", question = "exact";
  int entries = 100'000, outstanding = 32, batch = 0;
  double rate = 0, seconds = 5;
};

// The problems that are asked for, drawn beforehand.
std::vector<v1::LookupConfigRequest> Questions(const LoadOptions& options) {
  PhiloxStream random(1, 1);
  std::vector<v1::LookupConfigRequest> questions(4096);
  for (v1::LookupConfigRequest& question : questions) {
    Shape shape = ShapeOf(static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(options.entries))));
    if (options.question == "nearest") shape.m += 8;
    question.set_kernel("matmul_host");
    question.set_device_selector(options.device);
    for (const auto& [name, value] : shape.dims()) {
      (*question.mutable_problem()->mutable_dims())[name].set_int_value(value);
    }
  }
  return questions;
}

v1::BatchLookupConfigsRequest BatchQuestion(const std::vector<v1::LookupConfigRequest>& questions, int size,
                                            int first) {
  v1::BatchLookupConfigsRequest batch;
  batch.set_configs_only(true);
  batch.set_kernel(questions[0].kernel());
  batch.set_device_selector(questions[0].device_selector());
  for (const char* const name : {"M", "N", "K"}) {
    auto* const column = batch.add_columns();
    column->set_dim(name);
    for (int i = 0; i < size; ++i) {
      const auto& question = questions[static_cast<size_t>(first + i) % questions.size()];
      column->add_ints(question.problem().dims().at(name).int_value());
    }
  }
  return batch;
}

class Load {
 public:
  explicit Load(const LoadOptions& options)
      : options_(options),
        stub_(v1::LookupService::NewStub(grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials()))),
        questions_(Questions(options)) {
    for (int i = 0; options.batch > 0 && i < 16; ++i) {
      batches_.push_back(BatchQuestion(questions_, options.batch, i * options.batch));
    }
  }

  void Run() {
    // The connection, and what the daemon makes at the first question, are not what is measured.
    grpc::ClientContext context;
    v1::LookupConfigResponse first;
    TUNEFARM_CHECK(stub_->LookupConfig(&context, questions_[0], &first).ok());
    start_ = std::chrono::steady_clock::now();
    end_ = start_ + std::chrono::duration_cast<SteadyTime::duration>(std::chrono::duration<double>(options_.seconds));
    if (options_.rate > 0) {
      Pace();
    } else {
      for (int i = 0; i < options_.outstanding; ++i) Ask(std::chrono::steady_clock::now());
    }
    std::unique_lock<std::mutex> lock(mutex_);
    all_answered_.wait(lock, [this] { return open_ == 0; });
  }

  void Print() {
    const double seconds = std::chrono::duration<double>(last_ - start_).count();
    std::sort(micros_.begin(), micros_.end());
    const auto at = [this](double share) {
      return micros_[std::min(micros_.size() - 1, static_cast<size_t>(share * static_cast<double>(micros_.size())))];
    };
    TUNEFARM_CHECK(!micros_.empty());
    const double calls = static_cast<double>(micros_.size());
    fmt::print(
        "{:8} {:>5} {:>8.0f} calls/s {:>10.0f} answers/s  us: p50 {:>6.0f} p90 {:>6.0f} p99 {:>6.0f} p99.9 {:>6.0f} "
        "max "
        "{:>6.0f}  not as asked {}\n",
        options_.question, std::max(options_.batch, 1), calls / seconds, calls * std::max(options_.batch, 1) / seconds,
        at(0.5), at(0.9), at(0.99), at(0.999), micros_.back(), micros_.size() - expected_);
    for (const auto& [what, times] : others_)
      fmt::print("  {} times, first after {:.3f} s: {}\n", times.count, times.first_seconds, what);
  }

  bool ok() const { return expected_ == micros_.size(); }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::LookupConfigResponse answer;
    v1::BatchLookupConfigsResponse batch_answer;
    SteadyTime due;
  };
  // Answers that are not as asked and alike.
  struct Times {
    int64_t count = 0;
    double first_seconds = 0;  // since the start
  };
  static constexpr size_t kOthersMax = 16;  // kinds that are told apart

  void Pace() {
    const auto between = std::chrono::duration<double>(1 / options_.rate);
    for (int64_t i = 0;; ++i) {
      const SteadyTime due =
          start_ + std::chrono::duration_cast<SteadyTime::duration>(between * static_cast<double>(i));
      if (due >= end_) return;
      std::unique_lock<std::mutex> lock(pace_mutex_);
      due_.wait_until(lock, due, [] { return false; });  // nothing but time ends it
      Ask(due);
    }
  }

  void Ask(SteadyTime due) {
    const size_t number = next_.fetch_add(1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++open_;
    }
    auto call = std::make_shared<Call>();
    call->due = due;
    const auto done = [this, call](const grpc::Status& status) { OnAnswer(*call, status); };
    if (batches_.empty()) {
      stub_->async()->LookupConfig(&call->context, &questions_[number % questions_.size()], &call->answer, done);
    } else {
      stub_->async()->BatchLookupConfigs(&call->context, &batches_[number % batches_.size()], &call->batch_answer,
                                         done);
    }
  }

  // Empty: as asked.
  std::string WhatElse(const Call& call, const grpc::Status& status) const {
    if (!status.ok()) return fmt::format("error {}: {}", static_cast<int>(status.error_code()), status.error_message());
    const v1::Match wanted = options_.question == "nearest" ? v1::MATCH_NEAREST_SHAPE : v1::MATCH_EXACT;
    if (batches_.empty()) {
      return call.answer.match() == wanted ? std::string() : v1::Match_Name(call.answer.match());
    }
    const auto& matches = call.batch_answer.matches();
    if (matches.size() != options_.batch) return fmt::format("{} answers in a batch", matches.size());
    const auto other = std::find_if(matches.begin(), matches.end(), [wanted](int match) { return match != wanted; });
    return other == matches.end() ? std::string() : "in a batch " + v1::Match_Name(static_cast<v1::Match>(*other));
  }

  void OnAnswer(const Call& call, const grpc::Status& status) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const std::string other = WhatElse(call, status);
    if (options_.rate == 0 && now < end_) Ask(now);
    std::lock_guard<std::mutex> lock(mutex_);
    micros_.push_back(std::chrono::duration<double, std::micro>(now - call.due).count());
    expected_ += other.empty();
    if (!other.empty() && (others_.size() < kOthersMax || others_.count(other) > 0)) {
      Times& times = others_[other];
      if (times.count++ == 0) times.first_seconds = std::chrono::duration<double>(now - start_).count();
    }
    last_ = std::max(last_, now);
    if (--open_ == 0) all_answered_.notify_all();
  }

  const LoadOptions options_;
  const std::unique_ptr<v1::LookupService::Stub> stub_;
  const std::vector<v1::LookupConfigRequest> questions_;
  std::vector<v1::BatchLookupConfigsRequest> batches_;
  SteadyTime start_, end_;
  std::atomic<size_t> next_{0};
  std::mutex pace_mutex_;
  std::condition_variable due_;
  std::mutex mutex_;
  std::condition_variable all_answered_;
  int open_ = 0;
  std::vector<double> micros_;
  size_t expected_ = 0;
  std::map<std::string, Times> others_;
  SteadyTime last_;
};

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  CLI::App app("Asks a daemon for best configs of a catalog that fill_catalog has filled.");
  tunefarm::LoadOptions options;
  app.add_option("ADDRESS", options.address, "Of the daemon, such as unix:/path.")->required();
  app.add_option("--device", options.device, "As for tunefarm best --device.");
  app.add_option("--question", options.question, "exact or nearest.")->check(CLI::IsMember({"exact", "nearest"}));
  app.add_option("--entries", options.entries, "As given to fill_catalog.");
  app.add_option("--outstanding", options.outstanding, "Questions open at once.");
  app.add_option("--rate", options.rate, "Questions a second, instead.");
  app.add_option("--batch", options.batch, "Problems in one question; 0: LookupConfig.");
  app.add_option("--seconds", options.seconds, "How long.");
  CLI11_PARSE(app, argc, argv);
  tunefarm::Load load(options);
  load.Run();
  load.Print();
  return load.ok() ? 0 : 1;
}
