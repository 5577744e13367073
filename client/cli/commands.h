// One function per verb: adds the subcommand to the app; when chosen, it sets session->command.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace tunefarm::cli {

void AddTune(CLI::App* app, Session* session);  // cmd_tune.cc: tune, run, submit
void AddTuneMoe(CLI::App* app, Session* session);
void AddJobs(CLI::App* app, Session* session);
void AddResults(CLI::App* app, Session* session);
void AddBest(CLI::App* app, Session* session);
void AddMisses(CLI::App* app, Session* session);
void AddKernels(CLI::App* app, Session* session);
void AddDevices(CLI::App* app, Session* session);
void AddAgents(CLI::App* app, Session* session);  // cmd_agents.cc: agents, drain, quarantine
void AddDb(CLI::App* app, Session* session);
void AddToken(CLI::App* app, Session* session);
void AddCerts(CLI::App* app, Session* session);
void AddImport(CLI::App* app, Session* session);
void AddExport(CLI::App* app, Session* session);
void AddInspect(CLI::App* app, Session* session);
void AddSimulate(CLI::App* app, Session* session);
void AddDashboard(CLI::App* app, Session* session);
void AddStatus(CLI::App* app, Session* session);  // status, stop
void AddDoctor(CLI::App* app, Session* session);
void AddCompletion(CLI::App* app, Session* session);
// What the scripts of `completion` ask with "tunefarm __complete WORDS...": prints what the last of the words may
// become.
absl::StatusOr<ExitCode> Complete(const CLI::App& app, Session* session, const std::vector<std::string>& words);
void AddVersion(CLI::App* app, Session* session);

}  // namespace tunefarm::cli
