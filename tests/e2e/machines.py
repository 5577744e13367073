"""A farm of several machines, played by processes of this one: a control daemon and agents that reach it over loopback TCP."""

import json
import os
import signal
import socket

from farm import Farm, wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Machines:
    """`with Machines(agents=2) as machines:` starts them; machines.control is a Farm, machines.agents too."""

    def __init__(self, agents=2, lease=30, role="control", control_flags=(), agent_flags=(), start=True):
        self.address = f"127.0.0.1:{free_port()}"
        # Plain text on loopback is a client; agents need certificates, or this.
        self.control = Farm("--role", role, "--listen", self.address, "--insecure", "--agent-lease", lease, *control_flags)
        self.agents = [self.new_agent(f"agent-{i + 1}", *agent_flags) for i in range(agents)]
        self.starts = start

    def new_agent(self, name, *flags):
        return Farm("--role", "agent", "--control", self.address, "--agent-name", name, "--compile-workers", "1", *flags)

    def __enter__(self):
        if self.starts:
            self.control.start()
            for agent in self.agents:
                agent.spawn()
            self.wait_for_agents(len(self.agents))
        return self

    def __exit__(self, kind, value, traceback):
        failures = []
        for farm in [*self.agents, self.control]:
            try:
                if farm.process and farm.process.poll() is None:
                    farm.process.send_signal(signal.SIGCONT)
                farm.__exit__(kind, value, traceback)
            except AssertionError as error:
                failures.append(error)
        if failures and kind is None:
            raise failures[0]

    def listed(self):
        """Agents by name, as control lists them."""
        return {agent["display_name"]: agent for agent in self.control.json("agents").get("agents", [])}

    def wait_for_agents(self, count):
        return wait_until(lambda: len(self.remote()) == count, f"the registration of {count} agents")

    def remote(self):
        return {name: agent for name, agent in self.listed().items() if not agent.get("in_process")}

    def state_of(self, job):
        return self.control.json("jobs", "show", job)["state"].removeprefix("JOB_STATE_")

    def trial_count(self, job):
        return len(self.control.trials(job))
