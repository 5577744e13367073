// client_cpp_probe ADDRESS [SNAPSHOT]: does with the C++ client what the lines of stdin say, and answers each with one
// line of JSON. What is asked for is matmul_host with N=K=64.
//
//   find M | lookup M MILLISECONDS | wait REVISION MILLISECONDS | state | tune M | lookup-program DIGEST M |
//   open-snapshot FILE [DIGEST] | package FILE M
#include <tunefarm/client/client.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace client = tunefarm::client;

namespace {

client::QuestionSpec Spec(const std::string& device) {
  client::QuestionSpec spec;
  spec.kernel = "matmul_host";
  spec.varying_dims = {"M"};
  spec.fixed_dims = {{"N", 64}, {"K", 64}};
  spec.device = device;
  return spec;
}

void Say(const std::string& json) {
  std::cout << json << std::endl;  // flushed: somebody waits for it
}

void SayError(const client::Status& status) {
  Say(std::string("{\"error\": \"") + client::CodeName(status.code) + "\", \"reason\": \"" + status.reason + "\"}");
}

void SayAnswer(const client::Answer& answer, std::chrono::nanoseconds age) {
  std::ostringstream out;
  out << "{\"match\": \"" << client::MatchName(answer.match) << "\", \"config\": \"" << answer.config.ToText()
      << "\", \"revision\": " << answer.revision << ", \"age_ms\": " << age.count() / 1000000
      << ", \"from_stream\": " << (answer.source == client::Source::kCatalog ? "true" : "false") << "}";
  Say(out.str());
}

void SayLookup(const client::Result<client::TimedAnswer>& answer) {
  if (answer.ok()) {
    SayAnswer(*answer->answer, answer->age);
  } else {
    SayError(answer.status());
  }
}

void SayState(const client::CacheState& state) {
  std::ostringstream out;
  out << "{\"is_live\": " << (state.is_live ? "true" : "false") << ", \"revision\": " << state.revision
      << ", \"bests\": " << state.bests << ", \"resets\": " << state.resets << ", \"connects\": " << state.connects
      << "}";
  Say(out.str());
}

void Tune(const client::Client& own, int64_t m) {
  client::JobSpec spec;
  spec.kernel = "matmul_host";
  spec.problems = {{{{"M", m}, {"N", 64}, {"K", 64}}, {}, {}}};
  spec.strategy = "random";
  spec.max_trials = 2;
  spec.measure = {{"preset", "fast"}, {"noisy_relative_half_width", "-1"}, {"warm_cache", "true"}};
  const auto job = own.Submit(spec);
  if (!job.ok()) return SayError(job.status());
  const auto ended = own.WaitForJob(job->name);
  if (!ended.ok()) return SayError(ended.status());
  Say(std::string("{\"state\": \"") + client::JobStateName(ended->state) + "\"}");
}

void Export(const client::Client& own, const std::string& file, int64_t m) {
  client::PackageSpec spec;
  spec.kernel = "matmul_host";
  spec.dims = {{"M", {m, m + 1}}, {"N", {64}}};
  const auto package = own.ExportPackage(spec);
  if (!package.ok()) return SayError(package.status());
  std::ofstream(file, std::ios::binary) << package->bytes;
  Say("{\"bests\": " + std::to_string(package->bests) + ", \"left_out\": " + std::to_string(package->left_out.size()) +
      "}");
}

}  // namespace

int main(int, char** argv) {
  client::ClientOptions options;
  options.server = argv[1];
  auto opened = client::Client::Open(options);
  if (!opened.ok()) return 1;
  const auto question = opened->Prepare(Spec("host"));
  if (!question.ok()) return 1;
  client::Reader reader = question->NewReader();
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb, file, digest;
    int64_t number = 0, milliseconds = 0;
    words >> verb;
    if (verb == "open-snapshot") {
      words >> file >> digest;
      client::ClientOptions offline;
      offline.snapshot = file;
      const auto own = client::Client::Open(offline);
      client::QuestionSpec spec = Spec("");
      spec.program_digest = digest;
      const auto asked = own.ok() ? own->Prepare(spec) : client::Result<client::Question>(own.status());
      if (asked.ok()) {
        SayLookup(asked->Lookup({64}));
      } else {
        SayError(asked.status());
      }
      continue;
    }
    if (verb == "lookup-program") {
      words >> digest >> number;
      client::QuestionSpec spec = Spec("host");
      spec.program_digest = digest;
      client::LookupOptions lookup;
      lookup.timeout = std::chrono::minutes(1);
      const auto asked = opened->Prepare(spec);
      if (asked.ok()) {
        SayLookup(asked->Lookup({number}, lookup));
      } else {
        SayError(asked.status());
      }
      continue;
    }
    if (verb == "package") {
      words >> file >> number;
      Export(*opened, file, number);
      continue;
    }
    words >> number >> milliseconds;
    if (verb == "find") {
      if (const client::Answer* const found = reader.Find({number})) {
        SayAnswer(*found, reader.Age());
      } else {
        Say("{}");
      }
    } else if (verb == "lookup") {
      client::LookupOptions lookup;
      lookup.timeout = std::chrono::milliseconds(milliseconds);
      SayLookup(question->Lookup({number}, lookup));
    } else if (verb == "wait") {
      SayError(question->WaitForRevision(number, std::chrono::milliseconds(milliseconds)));
    } else if (verb == "state") {
      SayState(question->state());
    } else if (verb == "tune") {
      Tune(*opened, number);
    }
  }
  return 0;
}
