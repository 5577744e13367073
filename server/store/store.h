// Store: everything durable, cut by use case so that another database can stand behind it and pass the same conformance
// suite (tests/store). Definitions, problems, policies and trial details are opaque bytes here.
//
// Threads: all methods may be called from any thread. Writes block until they are durable (group commit); reads do not
// wait for writes, and see every write that has returned. Errors: NotFound for an id that does not exist;
// InvalidArgument for a value outside its limits; AlreadyExists and FailedPrecondition as documented; Unavailable when
// the database cannot be written (disk full, read-only): nothing was changed and the call may be repeated; DataLoss
// when it is damaged.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalog_rows.h"
#include "server/store/farm_rows.h"
#include "server/store/page.h"

namespace tunefarm {

class Clock;
class EntropySource;
class TokenStore;

struct KernelRow {
  std::string kernel_id;       // hex
  std::string program_digest;  // hex
  std::string display_name;
  std::string definition;  // opaque
  int64_t created_at_ms = 0;
};

struct DeviceClassRow {
  std::string class_id;
  std::string display_name;
  std::string properties;  // opaque
};

struct DeviceRow {
  std::string uuid;
  std::string class_id;
  std::string properties;  // opaque
  int64_t seen_at_ms = 0;
};

enum class StudyState { kSearching = 1, kFinals, kEnded };
enum class UnitState { kReady = 1, kClaimed, kDone, kTold, kPoisoned };
enum class UnitKind { kSearch = 1, kBaseline, kFinals };

struct StudyRow {
  int64_t study_id = 0;  // set by the store
  int number = 0;        // 1.. within the job
  std::string problem_key;
  std::string problem;  // opaque
  std::string class_id;
  // What a device of the class must answer to (ClaimRequest) to run it: a UUID or another of its names; empty: any
  // does.
  std::string device_uuid;
  std::string space_summary;  // opaque
  StudyState state = StudyState::kSearching;
  int64_t next_ordinal = 0;
  double device_busy_ms = 0;  // as of its last step
  std::string toolkit;        // of the device when it was submitted; may be empty: not known
};

struct JobRow {
  int64_t job_id = 0;  // set by the store
  std::string uid;
  std::string kernel_id;
  std::string spec;  // opaque: the request as accepted
  JobState state = JobState::kQueued;
  int priority = 0;
  std::string error;  // FAILED: why; otherwise why it is in its state when nobody asked for that; else empty
  int64_t created_at_ms = 0, started_at_ms = 0, ended_at_ms = 0;  // 0: not yet
  std::vector<StudyRow> studies;
};

struct SubmitRequest {
  JobRow job;                       // with studies
  std::optional<KernelRow> kernel;  // stored in the same transaction if new
  std::string request_id;           // empty: none
  std::string body_digest;          // of the request, to tell a retry from a reuse
  int64_t now_ms = 0;
};
struct SubmitResult {
  int64_t job_id = 0;
  bool was_duplicate = false;  // the request_id was seen before with the same body: job_id is that job
};

// 1 to 64 trials handed out together.
struct UnitRow {
  int64_t unit_id = 0;  // set by the store
  int64_t study_id = 0;
  UnitKind kind = UnitKind::kSearch;
  UnitState state = UnitState::kReady;
  int64_t first_ordinal = 0;
  int trial_count = 0;
  int rounds = 0;       // interleaved rounds; 0: one after another
  std::string payload;  // opaque: the trials
  int64_t token = 0;    // grows with every claim, nobody can tell by how much
  int attempt = 0;      // number of claims
  // Since it was last handed out whole its agent was lost so often with it in hand; see LostUnits in lost_units.h.
  int losses = 0;
  int64_t suspects_end = 0;
  int64_t handed_end = 0;  // only its trials before this ordinal are handed out; 0: all
};

struct ClaimRequest {
  std::string agent_id;
  int64_t epoch = 0;
  std::string device_uuid;
  std::string class_id;
  int units_max = 1;
  int64_t now_ms = 0;
  std::vector<std::string> device_names = {};  // what the device answers to besides its UUID; without line breaks
  int trials_max = 0;                          // nothing is added to units that have as many trials; 0: no such bound
};
struct ClaimedUnit {
  UnitRow unit;
  int64_t job_id = 0;
  std::string kernel_id;
  std::string problem;                            // opaque
  std::string job_spec;                           // opaque
  std::vector<int64_t> present_ordinals;          // trials of the unit that are already stored
  std::vector<std::string> present_devices = {};  // of FINALS: those that these name
};

// Values are those of tunefarm.v1.Outcome and TrialPurpose; the store knows only which ones are final.
struct TrialRow {
  int64_t study_id = 0;
  int64_t ordinal = 0;
  int attempt = 1;
  int outcome = 0;
  int purpose = 1;
  std::string config;    // canonical text
  double median_ns = 0;  // 0: none
  std::string device_uuid;
  std::string detail;   // opaque: the whole trial without log and samples
  std::string log;      // at most 64 KiB
  std::string samples;  // opaque; winners, finalists and failures only
  int64_t ended_at_ms = 0;
  // 16 bytes that name what was measured: trials of the same key would end the same. Empty: its result is its own. Not
  // read back.
  std::string measured_key;
};

struct ReportRequest {
  std::string agent_id;
  int64_t epoch = 0;
  int64_t unit_id = 0;
  int64_t token = 0;
  std::vector<TrialRow> trials;
  bool unit_done = false;
  int64_t now_ms = 0;
  bool unit_returned = false;  // not with unit_done
  int64_t replacements = 0;    // Replacements() before the unit was read
};
enum class ReportVerdict { kAccepted, kStale };

// What a study is told of results of other studies before it begins.
struct PriorRow {
  int rank = 0;         // 0 is the most similar
  std::string payload;  // opaque; at most 4 MiB
};

// One step of a study's driver, in one transaction.
struct DriveStep {
  int64_t study_id = 0;
  std::vector<int64_t> told_unit_ids;  // DONE units whose results the strategy has been told, in this order
  std::vector<UnitRow> new_units;      // proposals, durable before they run
  std::optional<StudyState> state;
  std::optional<std::string> space_summary;  // replaces the study's
  int64_t next_ordinal = 0;
  double device_busy_ms = 0;  // of all trials of the study so far
  int64_t now_ms = 0;
  // What the proposals rest on besides the study's own history; at most 16, in its first step only.
  std::vector<PriorRow> priors;
  int64_t driver_epoch = 0;  // of the job, as AdoptJobs answered it; 0: one daemon alone, not checked
  // Who runs the study from now on (StudyRow::device_uuid), also what of it is READY.
  std::optional<std::string> device_uuid = {};
};
struct DriveResult {
  std::vector<int64_t> unit_ids;  // of new_units, in order
};

// The decision log of a study, in order: rebuilding a strategy replays it.
struct StudyEvent {
  enum class Kind { kPropose = 1, kTell = 2 };
  int64_t sequence = 0;
  Kind kind = Kind::kPropose;
  int64_t unit_id = 0;
};
// A part of it: a study may have millions of trials.
struct StudyHistory {
  std::vector<StudyEvent> events;
  std::vector<UnitRow> units;  // that the events name, by unit_id
  // Of the units that are told here, or proposed here and not TOLD yet; by ordinal; log and samples left out.
  std::vector<TrialRow> trials;
};

// A study of a program, as far as another one wants to know before it reads any result.
struct KnownStudyRow {
  int64_t study_id = 0, job_id = 0;
  std::string problem_key;
  std::string problem;  // opaque
  std::string class_id;
  std::string toolkit;
  int64_t next_ordinal = 0;
};

// A part of the results of a study's search: the fastest, some spread evenly over the whole search, the newest that
// failed. Costs what it answers, however many results are stored.
struct ResultQuery {
  int64_t study_id = 0;
  int fastest_max = 0;
  int spread_max = 0;
  int failed_max = 0;
  std::vector<int> failed_outcomes;  // those that count as failed
};
struct ResultRow {
  int64_t ordinal = 0;
  int outcome = 0;
  std::string config;    // canonical text
  double median_ns = 0;  // 0: none
};

struct MeasuredRow {
  int64_t job_id = 0;
  int study_number = 0;
  TrialRow trial;  // log and samples left out
};

// Configs that crash or hang, by what makes them do it.
struct PoisonRow {
  std::string program_digest, config, problem_key, class_id, toolkit;
  int outcome = 0;
  int crashes = 1;
};

struct TrialQuery {
  int64_t job_id = 0;
  int study_number = 0;        // 0: all
  bool order_by_time = false;  // fastest first, then those without a time; otherwise by study and ordinal
  std::vector<int> outcomes;   // empty: all
  int purpose = 0;             // 0: all
  PageRequest page;
};
struct OutcomeCountRow {
  int64_t study_id = 0;
  int purpose = 0;
  int outcome = 0;
  int64_t count = 0;
};

struct StoreStatus {
  int schema_version = 0;
  int64_t database_bytes = 0;
  int64_t used_bytes = 0;  // of database_bytes; the rest is free and used again before the file grows
  int64_t active_jobs = 0;
  int64_t stored_trials = 0;
};

// What waits and what has ended, for the metrics.
struct QueueCounts {
  std::array<int64_t, 8> jobs{};  // by JobState
  int64_t ready_units = 0;        // waiting for an agent
  int64_t claimed_units = 0;
};

// Since the store was opened.
struct CommitStats {
  // Upper ends of the latency buckets in milliseconds; one more bucket holds what took longer.
  static constexpr std::array<double, 10> kBoundsMs = {0.5, 1, 2, 5, 10, 20, 50, 100, 500, 2000};
  std::array<int64_t, kBoundsMs.size() + 1> by_latency{};  // commits that succeeded
  double total_ms = 0;
  int64_t failed = 0;
  int64_t operations = 0;  // writes that the commits carried
  int64_t waiting = 0;     // writes in the queue now
};

class Store {
 public:
  virtual ~Store() = default;

  // --- submit ---
  // Stores job (QUEUED), studies (SEARCHING), kernel and request_id in one transaction. InvalidArgument (reason
  // REQUEST_ID_REUSED) if the request_id was used with another body within 7 days; NotFound if the kernel is neither
  // given nor stored; AlreadyExists for a uid that another job has.
  virtual absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) = 0;
  // Idempotent.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  virtual absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) = 0;
  // The newest of that name.
  virtual absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) = 0;
  virtual absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) = 0;  // newest first
  virtual absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) = 0;
  virtual absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() = 0;

  // --- claim and report (agents) ---
  // A fresh epoch for a new agent process. What an earlier process of the same id held goes back to the queue.
  virtual absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) = 0;
  // Its lease runs lease_ms (at least 1) from now, also one that had run out and was not reaped yet; `detail` replaces
  // what was registered. FailedPrecondition (AGENT_EPOCH) if the epoch has ended.
  virtual absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                              const std::optional<std::string>& detail) = 0;
  // None: it never registered, or its epoch has ended.
  virtual absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) = 0;
  // Those whose epoch has not ended, by id.
  virtual absl::StatusOr<std::vector<AgentRow>> ListAgents() = 0;
  // ClaimUnits gives a draining agent nothing. NotFound as FindAgent answers none.
  virtual absl::Status SetAgentDraining(std::string_view agent_id, bool draining) = 0;
  // What the agent holds, by unit id; nothing for another epoch than its current one.
  virtual absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) = 0;
  // Hands out READY units of the device's class, of jobs QUEUED or RUNNING, by job priority then claim order; a QUEUED
  // job becomes RUNNING in the same transaction. FailedPrecondition if the epoch is not the agent's current one.
  virtual absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) = 0;
  // Stores trials (an ordinal already present is left as it is) if token and epoch are current, checked in the same
  // statement; unit_done makes the unit DONE; unit_returned makes it READY, behind a new claim order, or removes it if
  // its study has ended. kStale otherwise, with nothing stored. InvalidArgument, with nothing stored, for a trial that
  // is not one of the unit's. Unavailable, with nothing stored, if the database was replaced after the unit was read:
  // results that were reported before may be missing from this one.
  virtual absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) = 0;
  // Returns an agent's units to READY, behind a new claim order, and ends its epoch. Units of ended studies are
  // removed. `was_lost`: it did not leave in order, and what it had in hand may be why.
  virtual absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost = false) = 0;
  // The same for all agents without a lease but those named: what a restarted daemon does first. Returns how many units
  // were returned.
  virtual absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) = 0;
  // The same for all agents whose lease has run out, which were lost; answers their ids.
  virtual absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) = 0;

  // --- leases ---
  // Takes a lease that is free or has run out, or renews the holder's own. Answers the row as it is then: the caller
  // has the lease if it is the holder.
  virtual absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) = 0;
  // Ends it if `holder` has it.
  virtual absl::Status ReleaseLease(std::string_view name, std::string_view holder) = 0;
  // Those that run and whose names begin so, by name.
  virtual absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) = 0;

  // --- what people say of devices ---
  // Instead of what was said of the device before. InvalidArgument for what DeviceOrderRow's limits do not allow.
  virtual absl::Status SetDeviceOrder(const DeviceOrderRow& order) = 0;
  virtual absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() = 0;  // by uuid

  // --- drive ---
  virtual absl::StatusOr<std::vector<JobRow>> ActiveJobs() = 0;  // not terminal, with studies, by id
  // The up to events_max (at least 1) events behind the one with this sequence (0: from the first). None: there are no
  // more. Parts read one after another are one history as long as nobody else calls Drive for the study.
  virtual absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) = 0;
  // Marks units TOLD, stores new ones READY, logs both in the order given (tells first) and sets state and next ordinal
  // (which never shrinks). FailedPrecondition, with nothing changed, if a told unit is not a DONE one of the study, a
  // new unit starts at an ordinal already handed out, or the study has ended; with the reason DRIVER_EPOCH if the job
  // is driven under another epoch than the step's. Ending a study removes its READY units.
  virtual absl::StatusOr<DriveResult> Drive(const DriveStep& step) = 0;
  // FailedPrecondition if the job's state is not one of `from`, or terminal: a job never leaves its end. Ending a job
  // ends its studies and removes READY units and priors; units in an agent's hands may still be reported. driver_epoch
  // as in DriveStep.
  virtual absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to,
                                   std::string_view error, int64_t now_ms, int64_t driver_epoch = 0) = 0;
  // Up to jobs_max jobs that have not ended and that no living node drives become the node's, under a new epoch; the
  // oldest first. Of those named in `except` only what is being cancelled. FailedPrecondition (NODE_LEASE) unless the
  // node lives.
  virtual absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                           const std::vector<int64_t>& except = {}) = 0;
  // Nobody drives the job any more, if the epoch is its current one.
  virtual absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) = 0;
  // Of those that exist, by id. At most 10,000.
  virtual absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) = 0;
  // Up to units_max units that are DONE and not TOLD, but for those named, by unit id, with their trials by ordinal
  // (log and samples left out). No events.
  virtual absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                                const std::vector<int64_t>& known_unit_ids = {}) = 0;

  // --- remember ---
  // Studies of the program that have handed out trials, whatever their job's kernel id, the newest first; at most
  // `limit`. Those of a job that is being deleted may be among them.
  virtual absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) = 0;
  // Each result once, by ordinal. Only of the search. No results for a study that is not there (any more).
  virtual absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) = 0;
  // Of the study's first step, in their order there. They stay as they are until the study ends, whatever becomes of
  // the studies they were taken from.
  virtual absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) = 0;
  // For each key a stored trial that was reported with it, the newest; none where there is none. At most 64 keys.
  virtual absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) = 0;

  // --- look up ---
  virtual absl::StatusOr<std::vector<BestRow>> LoadBests() = 0;
  // Of a higher revision, by revision.
  virtual absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) = 0;
  virtual absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                          std::string_view class_id) = 0;
  // Grows by one with every change of a best; at least 1.
  virtual absl::StatusOr<int64_t> CatalogRevision() = 0;
  virtual absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() = 0;  // by revision

  // --- change bests: each in one transaction with its entry in the history and the catalog's next revision ---
  // Newest kept of each key's history; older ones go.
  static constexpr int kBestChangesKept = 100;
  // Replaces the best under the row's keys; answers it as it is filed. A best that has the same config keeps its pin
  // and its note. FailedPrecondition (BEST_PINNED) for another config than a pinned best's; (BEST_CHANGED) where the
  // best is another one than it was compared with.
  virtual absl::StatusOr<BestRow> PromoteBest(const BestRow& best) = 0;
  // Answers the change, or the one that would be it with revision 0 where nothing is different afterwards and so
  // nothing was recorded. NotFound: BEST_NOT_FOUND where there is no best to change, REVISION_NOT_FOUND for a
  // from_revision that is not (any more) in the key's history.
  virtual absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) = 0;
  // Newest first.
  virtual absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) = 0;

  // --- misses ---
  // In one transaction: first what is gone, then what is present. InvalidArgument, with nothing changed, for more than
  // 1000 rows in all.
  virtual absl::Status WriteMisses(const MissChanges& changes) = 0;
  // By kernel name, problem key and class.
  virtual absl::StatusOr<std::vector<MissRow>> LoadMisses() = 0;

  // --- poison ---
  // Counts one more crash.
  virtual absl::Status RecordPoison(const PoisonRow& row) = 0;
  virtual absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                            std::string_view class_id) = 0;

  // --- read ---
  virtual absl::StatusOr<JobRow> GetJob(int64_t job_id) = 0;
  virtual absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states,
                                                const PageRequest& page) = 0;      // newest first; no states: all
  virtual absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) = 0;  // log and samples left out
  virtual absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) = 0;
  virtual absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) = 0;
  // FailedPrecondition unless the job is terminal. Bests stay, and so does the trial of each that the job has won, with
  // its log and samples, under the name it had: GetTrial finds it. A large job goes in parts, between which others may
  // write; after a crash in between it is still there with fewer trials, and can be deleted again.
  virtual absl::Status DeleteJob(int64_t job_id) = 0;

  // --- retain ---
  // Terminal jobs that ended before, oldest id first, from after_job_id on; without studies.
  virtual absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) = 0;
  // Removes up to rows_max logs and as many samples of trials of terminal jobs that ended before, the oldest first;
  // those of bests stay. Returns how many went: 0 when there is nothing more.
  virtual absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) = 0;
  // Removes kernels that are neither the newest of their name nor used by a job or a best, and were stored before.
  // Returns how many went.
  virtual absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) = 0;

  // As old as the store.
  virtual TokenStore* tokens() = 0;

  // --- keep ---
  virtual absl::StatusOr<StoreStatus> Status() = 0;
  virtual absl::StatusOr<QueueCounts> CountQueue() = 0;
  // Does not touch the database.
  virtual CommitStats Commits() const = 0;
  // How often the database was found to be another one than before, as one is that was put back to an older state: what
  // was read before may not be true of it. Known before any call works on it. Does not touch the database.
  virtual int64_t Replacements() const = 0;
  // A write that changes nothing, on disk: the same errors as any other.
  virtual absl::Status CheckWritable() = 0;
  // A consistent copy, checked and on disk. AlreadyExists if the path exists.
  virtual absl::Status Backup(const std::string& path) = 0;
  // Small settings that outlive the daemon (the host device's id). Names starting with "store." are refused.
  // kCatalogIdSetting is left out of copies of the database: what is restored from one is another catalog, whose
  // revisions mean something else.
  static constexpr std::string_view kCatalogIdSetting = "catalog.id";
  virtual absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) = 0;
  // The value from now on, whatever it was.
  virtual absl::Status PutSetting(std::string_view name, std::string_view value) = 0;
};

struct SqliteOptions {
  std::string path;                  // the database file; its directory exists
  std::string backup_directory;      // where a copy goes before migrating; made if missing
  int64_t database_bytes_max = 0;    // the file never grows beyond: Unavailable, as for a full disk; 0: no bound
  Clock* clock = nullptr;            // of leases, migrations and backups; outlives the store; null: the real one
  EntropySource* entropy = nullptr;  // of tokens and epochs; outlives the store; null: the real one
};

// Opens or creates the database and applies migrations, each with its version row in one transaction, after a backup.
// After a run that did not close the database it is checked first. FailedPrecondition: a newer schema than this program
// knows, a migration applied with another text, a network file system, or not our file. Unavailable: cannot be opened
// or written. DataLoss: damaged. One process per database: the caller holds the data directory's lock.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteOptions& options);

}  // namespace tunefarm
