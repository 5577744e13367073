"""The Debian packages of ./dev deb in a bare Debian 12 root: their fields, lintian's errors, and what people do with them.
They are installed and used (a kernel for the CPU is tuned and asked for, exported and launched from C, C++ and Python, the
service's daemon runs as its user), and removed and purged without a trace but data.

Needs root, mounts, packages (the folder TUNEFARM_DEB_PACKAGES), and debootstrap or a bare root to copy (TUNEFARM_DEB_ROOT),
with a mirror of Debian in reach. What is missing is said, and CTest lists the test as skipped.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
PACKAGES = pathlib.Path(os.environ["TUNEFARM_DEB_PACKAGES"])
GIVEN_ROOT = os.environ.get("TUNEFARM_DEB_ROOT")
NAMES = ["libtunefarm-client-dev", "libtunefarm-client0", "libtunefarm-launch1", "python3-tunefarm", "tunefarm"]
# What a user of the packages brings along: a compiler for kernels in C++ and for programs, and pip.
TOOLS = ["g++", "cmake", "make", "pkg-config", "python3-numpy", "python3-venv"]
SECONDS_MAX = 1800  # of one command; a hang

# In namespaces of its own, so that no mount and no process outlives a command.
ENTER = """
mount --make-rprivate /
mount -t proc proc "$0/proc"; mount --rbind /sys "$0/sys"; mount --rbind /dev "$0/dev"; mount -t tmpfs tmpfs "$0/run"
cp /etc/resolv.conf "$0/etc/resolv.conf" 2>/dev/null || true
exec chroot "$0" env -i HOME=/packages/home PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  bash -euo pipefail -c "$1"
"""
CONSUMER = """cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(tunefarm_client 0.1 REQUIRED)
find_package(tunefarm_launch 0.1 REQUIRED)
add_executable(lookup lookup.cc)
target_link_libraries(lookup PRIVATE tunefarm::client)
"""
PYTHON = """
import importlib.metadata, numpy, tunefarm, tunefarm.launch
assert importlib.metadata.version("tunefarm") == tunefarm.__version__
with tunefarm.Client() as client:
    print("best", client.best("vector_add_host", N=4096).config)
kernel = tunefarm.launch.open("/packages/add.tfpack").kernel("vector_add_host")
a, b = numpy.ones((2, 4096), "f4")
c = numpy.zeros(4096, "f4")
kernel(a=a, b=b, c=c, N=4096)
assert (c == 2).all()
print(tunefarm.__file__)
"""
# What systemd does by tunefarmd.service, but for its hardening.
SERVICE = """
import os, pwd, socket, subprocess
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("/run/notify")
os.chmod("/run/notify", 0o666)
notify.settimeout(600)
user = pwd.getpwnam("tunefarm")
daemon = subprocess.Popen(
    ["tunefarmd", "--config", "/etc/tunefarm/tunefarmd.toml"], user=user.pw_uid, group=user.pw_gid,
    extra_groups=os.getgrouplist("tunefarm", user.pw_gid),
    env={"PATH": os.environ["PATH"], "XDG_DATA_HOME": "/var/lib", "XDG_RUNTIME_DIR": "/run", "NOTIFY_SOCKET": "/run/notify"})
while b"READY=1" not in notify.recv(4096):
    pass
subprocess.run(["tunefarm", "--server", "unix:/run/tunefarm/admin.sock", "tune", "vector_add_host", "--policy", "fast",
                "--max-trials", "1", "--dim", "N=512"], check=True)
daemon.terminate()
assert daemon.wait(600) == 0
"""


def why_not():
    """What this machine lacks, or None."""
    if len(list(PACKAGES.glob("*.deb"))) != len(NAMES):
        return f"{PACKAGES} does not hold the Debian packages; ./dev deb makes them"
    if os.geteuid() != 0:
        return "a Debian root needs root to be made and entered"
    if not GIVEN_ROOT and not shutil.which("debootstrap"):
        return "debootstrap is not installed, and TUNEFARM_DEB_ROOT names no root"
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True)
    return "mount namespaces are not permitted here" if done.returncode != 0 else None


def make_root(folder):
    """A bare Debian 12 in `folder`; what failed, or None."""
    if GIVEN_ROOT:
        command = ["cp", "-a", f"{GIVEN_ROOT}/.", str(folder)]
    else:
        command = ["debootstrap", "--variant=minbase", "bookworm", str(folder), "http://deb.debian.org/debian"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        return f"no Debian root could be made: {(done.stdout + done.stderr).strip().splitlines()[-1:]}"
    return None


def field(package, name):
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True).stdout.strip()


class Deb(unittest.TestCase):
    maxDiff = None

    def inside(self, script):
        """Runs a script of bash in the root; returns what it prints."""
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", ENTER, str(ROOT), script],
                              capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
        return done.stdout + done.stderr

    def installed_traces(self):
        """Paths that name tunefarm, but for what the test itself has (/packages, sockets in /tmp) and apt's own records."""
        found = self.inside("find / -xdev -iname '*tunefarm*' -not -path '/packages/*' -not -path '/tmp/*'"
                            " -not -path '/var/log/*' -not -path '/var/cache/*' -not -path '/var/lib/apt/*'")
        return sorted(found.split())

    def test_1_fields(self):
        packages = {field(file, "Package"): file for file in PACKAGES.glob("*.deb")}
        self.assertEqual(sorted(packages), NAMES)
        for name, file in packages.items():
            relations = " ".join(field(file, relation) for relation in ("Depends", "Recommends", "Pre-Depends"))
            self.assertNotRegex(relations, r"cuda|nvidia|nvrtc", name)
            self.assertRegex(field(file, "Maintainer"), r"^[^<]+ <\S+@\S+>$")
            self.assertEqual(field(file, "Priority"), "optional")
            self.assertEqual(field(file, "Architecture") == "all", name == "python3-tunefarm")
        self.assertRegex(field(packages["tunefarm"], "Depends"), r"libgrpc\+\+1\.51 .*libsqlite3-0")
        self.assertRegex(field(packages["libtunefarm-launch1"], "Depends"), r"^libc6 \(>= [\d.]+\)$")
        version = field(packages["tunefarm"], "Version")
        self.assertIn(f"libtunefarm-launch1 (= {version})", field(packages["libtunefarm-client-dev"], "Depends"))

    def test_2_install_and_use(self):
        (ROOT / "packages" / "home").mkdir(parents=True)
        for file in [*PACKAGES.glob("*.deb"), *PACKAGES.parent.glob("*.whl")]:
            shutil.copy(file, ROOT / "packages")
        self.assertEqual(self.installed_traces(), [])
        said = self.inside("apt-get update -qq || true\n"
                           f"apt-get install -y -qq --no-install-recommends /packages/*.deb {' '.join(TOOLS)}")
        self.assertNotRegex(said, r"(?m)^tunefarm: ")
        print(self.inside("tunefarm --version").strip(), "is tested ... ", end="", flush=True)
        self.assertRegex(self.inside("getent passwd tunefarm"), r":/var/lib/tunefarm:/usr/sbin/nologin$")
        for path in ("/usr/bin/tunefarm", "/usr/bin/tunefarmd", "/usr/libexec/tunefarm/tunefarm-worker"):
            self.inside(f"test -x {path}; ! ldd {path} | grep 'not found'")
        for path in ("/usr/share/man/man1/tunefarm.1.gz", "/usr/share/man/man8/tunefarmd.8.gz",
                     *(f"/usr/share/doc/{name}/copyright" for name in NAMES)):
            self.inside(f"test -s {path}")
        self.assertIn("tunefarm jobs pause", self.inside("zcat /usr/share/man/man1/tunefarm.1.gz").replace("\\-", "-"))
        self.inside("bash -n /usr/share/bash-completion/completions/tunefarm")

        # On the CPU, with a daemon of the user's own; each command here finds what the one before has stored.
        self.inside("tunefarm tune vector_add_host --policy fast --max-trials 3 --strategy random --dim N=4096; tunefarm stop")
        self.assertIn("EXACT", self.inside("tunefarm best vector_add_host --dim N=4096; tunefarm stop"))
        self.inside("tunefarm tune matmul_host --policy fast --max-trials 3 --strategy random --dim M=64 --dim N=64 --dim K=64\n"
                    "cd /packages; tunefarm export package add.tfpack --kernel vector_add_host; tunefarm export snapshot all.tfsnap\n"
                    "tunefarm stop")

    def test_3_programs_and_python(self):
        examples = "/usr/share/doc/libtunefarm-client-dev/examples"
        build = f"cd /packages; cc -O2 -Wall -Werror -o add {examples}/vector_add.c"
        self.inside(f"{build} $(pkg-config --cflags --libs tunefarm-launch) -ldl; ./add add.tfpack cpu")
        self.assertIn("libtunefarm-launch.so.1 => /lib/", self.inside("ldd /packages/add"))
        self.inside(f"{build} $(pkg-config --cflags tunefarm-launch) -l:libtunefarm-launch.a -lstdc++ -lm -ldl; ./add add.tfpack cpu")
        self.assertNotIn("libtunefarm-launch", self.inside("ldd /packages/add"))
        (ROOT / "packages" / "consumer").mkdir()
        (ROOT / "packages" / "consumer" / "CMakeLists.txt").write_text(CONSUMER)
        self.assertIn("TILE_M", self.inside(f"cd /packages/consumer; cp {examples}/lookup.cc .; cmake -S . -B build; cmake --build build\n"
                                            "build/lookup /packages/all.tfsnap"))
        self.inside(f"cd /packages; g++ -std=c++17 -o lookup {examples}/lookup.cc $(pkg-config --cflags --libs tunefarm-client)")

        (ROOT / "packages" / "script.py").write_text(PYTHON)
        said = self.inside("cd /packages; python3 script.py; tunefarm stop")
        self.assertIn("best", said)
        self.assertIn("/usr/lib/python3/dist-packages/tunefarm/", said)
        self.inside("test -d /usr/lib/python3/dist-packages/tunefarm/__pycache__")

    def test_4_the_service_and_a_second_installation(self):
        # The unit makes the two directories.
        (ROOT / "packages" / "service.py").write_text(SERVICE)
        self.inside("install -d -o tunefarm -g tunefarm -m 700 /var/lib/tunefarm\n"
                    "install -d -o tunefarm -g tunefarm -m 755 /run/tunefarm\n"
                    "python3 /packages/service.py")
        self.inside("test -s /var/lib/tunefarm/tunefarm.db\n"
                    "echo 'log_level = \"warn\"' >> /etc/tunefarm/tunefarmd.toml\n"
                    "apt-get install -y -qq --reinstall /packages/*.deb\n"
                    "grep -q '^log_level' /etc/tunefarm/tunefarmd.toml; test -s /var/lib/tunefarm/tunefarm.db")

    def test_5_removal_and_purge(self):
        everything = " ".join(NAMES)
        self.inside(f"apt-get remove -y -qq {everything}")
        traces = [path for path in self.installed_traces() if not path.startswith("/var/lib/dpkg/info/")]
        self.assertEqual([path for path in traces if not path.startswith("/var/lib/tunefarm")],
                         ["/etc/tunefarm", "/etc/tunefarm/tunefarmd.toml"])
        self.assertIn("/var/lib/tunefarm/tunefarm.db", traces)
        said = self.inside(f"dpkg --purge {everything} 2>&1; test -s /var/lib/tunefarm/tunefarm.db; ! test -e /var/lib/tunefarm/cache\n"
                           "stat -c %U /var/lib/tunefarm/tunefarm.db")
        self.assertRegex(said, r"(?m)^tunefarm: what was measured stays in /var/lib/tunefarm;")
        self.assertEqual(said.split()[-1], "tunefarm")
        self.assertEqual(self.installed_traces(), ["/var/lib/tunefarm", "/var/lib/tunefarm/tunefarm.db",
                                                   "/var/lib/tunefarm/tunefarm.db.initialized"])
        # Where nothing was measured nothing stays, the user included.
        self.inside(f"rm -r /var/lib/tunefarm; apt-get install -y -qq --no-install-recommends /packages/*.deb; dpkg --purge {everything}\n"
                    "! getent passwd tunefarm; ! getent group tunefarm")
        self.assertEqual(self.installed_traces(), [])

    def test_6_the_wheel_where_debian_has_what_it_needs(self):
        said = self.inside("cd /packages; python3 -m venv --system-site-packages venv\n"
                           "venv/bin/pip install --no-index --quiet tunefarm-*.whl; venv/bin/pip check\n"
                           "venv/bin/python -c 'import tunefarm; tunefarm.Client; print(tunefarm.__file__)'")
        self.assertIn("/packages/venv/lib/", said)

    def test_7_lintian(self):
        self.inside("apt-get install -y -qq --no-install-recommends lintian")
        said = self.inside("lintian --allow-root --display-info --fail-on none /packages/*.deb")
        self.assertEqual(re.findall(r"(?m)^E: .*|^.*hardening-no-(?:pie|relro|bindnow).*", said), [], said)


def main():
    global ROOT
    reason = why_not()
    with tempfile.TemporaryDirectory(prefix="tunefarm-deb.", ignore_cleanup_errors=True) as folder:
        # Workers and apt run under other users.
        pathlib.Path(folder).chmod(0o755)
        ROOT = pathlib.Path(folder) / "root"
        if reason is None:
            ROOT.mkdir(mode=0o755)
            reason = make_root(ROOT)
        if reason is not None:
            print(f"NOT TESTED: {reason}", flush=True)
            sys.exit(77)
        unittest.main(failfast=True, verbosity=2)


if __name__ == "__main__":
    main()
