#!/usr/bin/env bash
# bundle.sh BUILD_DIRECTORY BUNDLE_DIRECTORY
#
# Makes a folder that runs on another x86-64 Linux with glibc 2.36 or newer without installing anything: stripped programs,
# the shared libraries they need ($ORIGIN rpath), kernels, the Python package without type stubs. NVRTC and cuBLAS stay
# out: they are found on the machine.
set -euo pipefail

build=$1
bundle=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
size_max_mib=45

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/share/tunefarm"
for program in tunefarm tunefarmd tunefarm-worker; do
  cp "$build/bin/$program" "$bundle/bin/"
done
cp -r "$root/kernels" "$bundle/share/tunefarm/kernels"
rm -f "$bundle/share/tunefarm/kernels/CMakeLists.txt"
mkdir "$bundle/python"
cp -r "$build/python/tunefarm" "$bundle/python/"
find "$bundle/python" \( -name __pycache__ -o -name '*.pyi' \) -prune -exec rm -rf {} +
# Launching from Python: looked for beside the package's files.
cp -L "$build/client/launch/libtunefarm-launch.so.1" "$bundle/python/tunefarm/"
cp -r "$root/server/daemon/deploy" "$bundle/share/tunefarm/deploy"
cp "$root/server/daemon/OPERATING.md" "$bundle/share/tunefarm/"
cp "$root/server/cmake/bundle_readme.md" "$bundle/README.md"
cp "$root/LICENSE" "$bundle/"
# Pages of the source tree that the bundle does not hold are named instead of linked.
find "$bundle" -name '*.md' | while read -r page; do
  folder=$(dirname "$page")
  { grep -o '](\([^):#]*\))' "$page" || true; } | sed 's/^](//; s/)$//' | sort -u | while read -r link; do
    [ -e "$folder/$link" ] || sed -i "s|\[\([^]]*\)\]($link)|\1|g" "$page"
  done
done

# glibc and the loader belong to the machine: shipping them would break its name service and its driver.
is_system_library() {
  case $(basename "$1") in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.* | ld-linux* | libcuda.so.* | libnvidia-*) return 0 ;;
  esac
  return 1
}

for program in "$bundle"/bin/*; do
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | while read -r library; do
  is_system_library "$library" || cp -L "$library" "$bundle/lib/"
done

for program in "$bundle"/bin/*; do
  strip "$program"
  patchelf --set-rpath '$ORIGIN/../lib' "$program"
done
strip --strip-unneeded "$bundle/python/tunefarm/libtunefarm-launch.so.1"
for library in "$bundle"/lib/*; do
  chmod u+w "$library"
  strip --strip-unneeded "$library"
  patchelf --set-rpath '$ORIGIN' "$library"
done

# A bundle with a hole must be found here, not on the cluster.
missing=$(for file in "$bundle"/bin/* "$bundle"/lib/*; do ldd "$file" | grep 'not found' || true; done)
if [ -n "$missing" ]; then
  printf 'bundle: unresolved libraries:\n%s\n' "$missing" >&2
  exit 1
fi
# Bytes that travel, not blocks of a disk.
size_kib=$(du -sk --apparent-size "$bundle" | cut -f1)
if [ "$size_kib" -gt $((size_max_mib * 1024)) ]; then
  printf 'bundle: %s KiB exceed the limit of %s MiB\n' "$size_kib" "$size_max_mib" >&2
  exit 1
fi
printf 'bundle: %s (%s KiB). Copy it to the machine and run bin/tunefarm doctor there.\n' "$bundle" "$size_kib" >&2
