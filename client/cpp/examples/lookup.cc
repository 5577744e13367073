// Asks for the best config of a matrix product, whatever becomes of the daemon.
//
//   tunefarm_client_example [SNAPSHOT]     with a file of `tunefarm export snapshot` no daemon is needed
#include <tunefarm/client/client.h>

#include <chrono>
#include <cstdio>

namespace {

using tunefarm::client::DefaultConfig;
using tunefarm::client::DefaultValue;

// What this program was built with; `tunefarm best matmul_host` shows the parameters.
constexpr DefaultValue kTiles[] = {{"TILE_M", 64}, {"TILE_N", 64}, {"TILE_K", 64}, {"ORDER", "nkm"}, {"PACK", false}};
constexpr DefaultConfig kDefaults[] = {{"matmul_host", "", {}, kTiles}};

void Show(const tunefarm::client::Answer& answer) {
  std::printf("%s  %s  %s  %.0f ns\n", tunefarm::client::MatchName(answer.match), answer.config.ToText().c_str(),
              answer.device_class_name.c_str(), answer.median_ns);
}

int Fail(const tunefarm::client::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToText().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  tunefarm::client::ClientOptions options;
  options.defaults.push_back(kDefaults);
  if (argc > 1) options.snapshot = argv[1];
  auto client = tunefarm::client::Client::Open(options);
  if (!client.ok()) return Fail(client.status());

  // Once for each kind of question; "host" is this machine's CPU.
  auto question = client->Prepare({"matmul_host", {"M", "N", "K"}, {}, argc > 1 ? "" : "host"});
  if (!question.ok()) return Fail(question.status());

  // Where a config is wanted now and a moment may be spent: with a deadline, from the daemon if it is not cached.
  tunefarm::client::LookupOptions lookup;
  lookup.timeout = std::chrono::milliseconds(500);
  const auto answer = question->Lookup({256, 256, 256}, lookup);
  if (!answer.ok()) return Fail(answer.status());
  Show(*answer->answer);

  // Where nothing may be spent: one reader for each thread, which never waits.
  auto reader = question->NewReader();
  if (const tunefarm::client::Answer* const best = reader.Find({256, 256, 256})) Show(*best);
  return 0;
}
