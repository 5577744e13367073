// Devices with their state, the agents that they belong to, and the classes that results are filed under.
import type { Agent, Device, DeviceClass } from "api";
import { useState } from "preact/hooks";
import { call, caller, has } from "../api";
import type { ViewProps } from "../app";
import { Facts, Long, TextField, Warning } from "../facts";
import { byName, byteRate, bytes, count, duration, enumText, flopRate, int, nanoseconds } from "../format";
import { usePoll } from "../poll";
import { href } from "../route";
import { useShared } from "../shared";
import { ActionButton, ErrorLine, Loading, Panel, Table, Time } from "../ui";

interface Farm {
  devices: Device[];
  agents: Agent[];
}

async function load(signal: AbortSignal): Promise<Farm> {
  const farm: Farm = { devices: [], agents: [] };
  let pageToken = "";
  do {
    const page = await call("tunefarm.v1.DeviceService/ListDevices", { pageSize: 1000, pageToken }, signal);
    farm.devices.push(...(page.devices ?? []));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  do {
    const page = await call("tunefarm.v1.FarmService/ListAgents", { pageSize: 1000, pageToken }, signal);
    farm.agents.push(...(page.agents ?? []));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  return farm;
}

export function Quarantine(props: { device: Device; onChange: () => void }) {
  const [reason, setReason] = useState("");
  const name = props.device.name ?? "";
  if (props.device.state === "DEVICE_STATE_QUARANTINED") {
    return (
      <ActionButton
        label="Release"
        done="The device takes work again."
        act={() => call("tunefarm.v1.DeviceService/ReleaseDevice", { name }).then(props.onChange)}
        confirm={`${props.device.uuid} takes work again; its next trial waits for a health check.`}
      />
    );
  }
  return (
    <ActionButton
      label="Quarantine"
      isDanger
      done="The device is out of service."
      act={() => call("tunefarm.v1.FarmService/QuarantineDevice", { name, reason }).then(props.onChange)}
      confirm={
        <>
          <p>{props.device.uuid} gets no more work until it is released.</p>
          <TextField label="Reason (required)" value={reason} onInput={setReason} />
        </>
      }
    />
  );
}

export function DeviceState(props: { device: Device }) {
  const { device } = props;
  const state = enumText(device.state, "DEVICE_STATE_");
  const sign = state !== "READY" ? "✗" : device.stateReason ? "▲" : "✓";
  const others = int(device.foreignProcesses);
  return (
    <>
      <span class={sign === "✓" ? "good" : sign === "✗" ? "bad" : "so-so"}>
        <span aria-hidden="true">{sign}</span> {state}
      </span>
      {int(device.stateSinceMs) > 0 && state !== "READY" && (
        <>
          {" "}
          since <Time ms={device.stateSinceMs} />
        </>
      )}
      {device.stateReason && <>: {device.stateReason}</>}
      {others > 0 && `; ${count(others)} process${others === 1 ? "" : "es"} of others on it`}
    </>
  );
}

function AgentState(props: { agent: Agent }) {
  const { agent } = props;
  const lease = int(agent.leaseLeftMs);
  if (!agent.inProcess && lease <= 0) {
    return (
      <span class="bad">
        <span aria-hidden="true">✗</span> lost: its lease has run out
      </span>
    );
  }
  return (
    <>
      {agent.draining ? (
        <Warning>draining</Warning>
      ) : (
        <span class="good">
          <span aria-hidden="true">✓</span> ready
        </span>
      )}
      {agent.compilesOnly && ", compiles only"}
      {agent.inProcess ? ", in the daemon" : `, lease ${duration(lease)}`}
    </>
  );
}

function AgentDetails(props: { agent: Agent }) {
  const { agent } = props;
  return (
    <details>
      <summary>more</summary>
      <Facts
        facts={[
          ["id", agent.name?.replace("agents/", "")],
          ["version", agent.version],
          ["registered", <Time ms={agent.registeredAtMs} />],
          ["isolation", agent.sandboxLevel],
          ["toolchains", (agent.toolchains ?? []).join("; ")],
          ["clock skew", int(agent.clockSkewMs) ? `${count(agent.clockSkewMs)} ms` : ""],
          ["heard", agent.servedHere && !agent.inProcess ? `${duration(int(agent.silentMs))} ago` : ""],
        ]}
      />
    </details>
  );
}

export function Drain(props: { agent: Agent; onChange: () => void }) {
  const name = props.agent.name ?? "";
  const who = props.agent.displayName || name;
  return props.agent.draining ? (
    <ActionButton
      label="Undrain"
      done={`${who} is given work again.`}
      act={() => call("tunefarm.v1.FarmService/UndrainAgent", { name }).then(props.onChange)}
    />
  ) : (
    <ActionButton
      label="Drain"
      done={`${who} is given no more work.`}
      act={() => call("tunefarm.v1.FarmService/DrainAgent", { name }).then(props.onChange)}
      confirm={`${who} finishes the units that it has and is given no more.`}
    />
  );
}

function ClassFacts(props: { it: DeviceClass }) {
  const { it } = props;
  const isGpu = it.kind === "DEVICE_KIND_CUDA";
  return (
    <Facts
      facts={[
        ["class", <code>{it.id}</code>],
        ["compute capability", isGpu ? (int(it.computeCapability) / 10).toFixed(1) : ""],
        [isGpu ? "multiprocessors" : "cores", count(it.smCount)],
        ["memory", it.memoryGib ? `${count(it.memoryGib)} GiB` : ""],
        ["last-level cache", it.l2Bytes ? bytes(it.l2Bytes) : ""],
        ["shared memory", it.sharedBytesPerBlockOptin ? `${bytes(it.sharedBytesPerBlockOptin)} per block` : ""],
        ["registers", it.registersPerSm ? `${count(it.registersPerSm)} per multiprocessor` : ""],
        ["MIG profile", it.migProfile],
        ["compiler", it.compiler],
      ]}
    />
  );
}

function DeviceDetails(props: { device: Device }) {
  const { device } = props;
  return (
    <details>
      <summary>more</summary>
      <Facts
        facts={[
          ["driver", device.driverVersion],
          ["toolkit", device.toolkitVersion],
          ["Triton", device.tritonVersion],
          ["clock", device.clockMhz ? `at most ${count(device.clockMhz)} MHz` : ""],
          ["memory clock", device.memoryClockMhz ? `at most ${count(device.memoryClockMhz)} MHz` : ""],
          ["memory rate", device.peakBytesPerSecond ? `at most ${byteRate(device.peakBytesPerSecond, 1e9)}` : ""],
          ...byName(device.peakFlopsByUnit).map(([unit, rate]): [string, string] => [
            unit,
            `at most ${flopRate(rate, 1e9)}`,
          ]),
          ["health check", device.baselineNs ? nanoseconds(device.baselineNs) : ""],
          ...(device.sentinels ?? []).map((each): [string, string] => [each.name ?? "", nanoseconds(each.medianNs)]),
        ]}
      />
    </details>
  );
}

export function DevicesView(_: ViewProps) {
  const isAdmin = has(useShared(caller), "admin");
  const { data, error, refresh } = usePoll("devices", load, 5000);
  if (error && !data) return <ErrorLine error={error} />;
  if (!data) return <Loading />;
  const classes = new Map<string, { it: DeviceClass; devices: number }>();
  for (const { deviceClass } of data.devices) {
    const id = deviceClass?.id ?? "";
    classes.set(id, { it: deviceClass ?? {}, devices: (classes.get(id)?.devices ?? 0) + 1 });
  }
  return (
    <>
      <h1>Devices</h1>
      <Table<Device>
        caption="Devices"
        hidesCaption
        rows={data.devices}
        rowKey={(device) => device.uuid ?? ""}
        empty="No devices: no agent has registered."
        columns={[
          { name: "device", cell: (device) => device.deviceClass?.displayName },
          {
            name: "state",
            cell: (device) => (
              <div class="long">
                <DeviceState device={device} />
              </div>
            ),
          },
          { name: "agent", cell: (device) => <Long text={device.agent || "the daemon's own"} /> },
          {
            name: "free memory",
            isNumber: true,
            cell: (device) =>
              int(device.memoryBytes) ? `${bytes(device.memoryFreeBytes)} of ${bytes(device.memoryBytes)}` : "–",
          },
          { name: "uuid", cell: (device) => <code class="nowrap">{device.uuid}</code> },
          { name: "details", cell: (device) => <DeviceDetails device={device} /> },
          ...(isAdmin
            ? [
                {
                  name: "action",
                  cell: (device: Device) =>
                    device.state !== "DEVICE_STATE_OFFLINE" && <Quarantine device={device} onChange={refresh} />,
                },
              ]
            : []),
        ]}
      />
      <div class="panels">
        {data.agents.length > 0 && (
          <Panel title="Agents" class="wide">
            <Table<Agent>
              caption="Agents"
              hidesCaption
              rows={data.agents}
              rowKey={(agent) => agent.name ?? ""}
              columns={[
                { name: "agent", cell: (agent) => <Long text={agent.displayName ?? ""} /> },
                {
                  name: "state",
                  cell: (agent) => (
                    <span class="nowrap">
                      <AgentState agent={agent} />
                    </span>
                  ),
                },
                { name: "host", cell: (agent) => agent.host },
                { name: "devices", isNumber: true, cell: (agent) => count(agent.devices?.length) },
                {
                  name: "units",
                  isNumber: true,
                  title: "Trials and compiles that it works on",
                  cell: (agent) => (agent.servedHere ? count(agent.units) : "–"),
                },
                {
                  name: "labels",
                  cell: (agent) => (
                    <Long
                      text={byName(agent.labels)
                        .map(([key, value]) => `${key}=${value}`)
                        .join(" ")}
                    />
                  ),
                },
                { name: "details", cell: (agent) => <AgentDetails agent={agent} /> },
                ...(isAdmin
                  ? [
                      {
                        name: "action",
                        cell: (agent: Agent) => !agent.inProcess && <Drain agent={agent} onChange={refresh} />,
                      },
                    ]
                  : []),
              ]}
            />
          </Panel>
        )}
        {[...classes.values()].map(({ it, devices }) => (
          <Panel
            key={it.id}
            title={it.displayName}
            actions={<a href={href("catalog", { class: it.id })}>best configs</a>}
          >
            <p class="muted">
              {count(devices)} device{devices === 1 ? "" : "s"} of this class
            </p>
            <ClassFacts it={it} />
          </Panel>
        ))}
      </div>
    </>
  );
}
