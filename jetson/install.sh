#!/bin/sh
# Installs Brim as a service, from an unpacked archive or from a built checkout. It may be run again at any time: to repair, and
# to update to the version that it lies beside. It needs no network.
set -eu

usage() {
  cat <<'TEXT'
Usage: sudo jetson/install.sh [options]

  --agent, --bridge   what to install (default: the agent)
  --id NAME           id of the device or bridge in its configuration file (default: the host name)
  --bundle FOLDER     bundle in its configuration file
  --token-file FILE   enrol this device with the token of "brim bridge token create" in FILE
  --slm-server FILE   add a service brim-slm-server: llama.cpp's server with the small model in FILE (GGUF), for the agent's sketches
  --gpu, --no-gpu     give the service the GPU, or not (default: where there is one)
  --no-start          neither enable nor start the service
  --uninstall         remove service and program; configuration, keys and state stay
  --purge             with --uninstall: remove these too
  --dry-run           check and say what would be done, and do nothing
  --help

An existing configuration file is left as it is. DESTDIR=FOLDER installs into a folder, without users and without starting.
TEXT
}

fail() { printf 'error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf '  try: %s\n' "$2" >&2; exit 1; }
wrong_usage() { printf 'error: %s\n  try: --help\n' "$1" >&2; exit 2; }
say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
# Runs a command that changes something, or only shows it.
change() {
  if [ -n "$dry_run" ]; then printf '  would run: %s\n' "$*"; else "$@"; fi
}

role=agent start=yes
id='' bundle='' token='' slm='' gpu='' uninstall='' purge='' dry_run=''
while [ $# -gt 0 ]; do
  case $1 in
  --id | --bundle | --token-file | --slm-server) [ $# -gt 1 ] || wrong_usage "$1 needs a value" ;;
  esac
  case $1 in
  --agent) role=agent ;;
  --bridge) role=bridge ;;
  --id) id=$2; shift ;;
  --bundle) bundle=$2; shift ;;
  --token-file) token=$2; shift ;;
  --slm-server) slm=$2; shift ;;
  --gpu) gpu=yes ;;
  --no-gpu) gpu=no ;;
  --no-start) start= ;;
  --uninstall) uninstall=yes ;;
  --purge) purge=yes ;;
  --dry-run) dry_run=yes ;;
  --help | -h) usage; exit 0 ;;
  *) wrong_usage "unknown option $1" ;;
  esac
  shift
done
[ -z "$purge" ] || [ -n "$uninstall" ] || wrong_usage '--purge belongs to --uninstall'
[ -z "$token" ] || [ "$role" = agent ] || wrong_usage '--token-file enrols a device; a bridge needs no token'
[ -z "$slm" ] || [ "$role" = agent ] || wrong_usage '--slm-server serves an agent'

source=$(cd "$(dirname "$0")/.." && pwd -P)
destdir=${DESTDIR:-}
program=/opt/brim
config=/etc/brim
state=/var/lib/brim
units=/etc/systemd/system
service=brim-$role
slm_service=brim-slm-server
# Where docs/jetson.md installs it, and where its unit starts it.
slm_program=/usr/local/bin/llama-server
slm_url=http://127.0.0.1:8080
user=brim

# As the service finds it: a bundle of this archive is installed with it.
if [ -n "$bundle" ] && [ -d "$bundle" ]; then bundle=$(cd "$bundle" && pwd -P); fi
case $bundle in
"$source"/bundles/*) bundle=$program${bundle#"$source"} ;;
esac

# Changes something in the state folder as its owner, who may have put links to files of root there.
as_user() {
  if [ -n "$destdir" ]; then change "$@"; else change setpriv --reuid "$user" --regid "$user" --init-groups "$@"; fi
}

# --- what is here ---------------------------------------------------------------------------------------------------------

# "2.31" → 231: versions as numbers that compare.
version_number() { printf '%s' "$1" | awk -F. '{ printf "%d", $1 * 100 + $2 }'; }
release_field() { sed -n "s/^  \"$1\": \"\\(.*\\)\",*\$/\\1/p" "$source/release.json"; }
# Installed by the Debian package, which also replaces and removes it.
is_packaged() { [ -e "$destdir/var/lib/dpkg/info/brim.list" ]; }
has_systemd() { [ -z "$destdir" ] && [ -d /run/systemd/system ]; }

jetpack() {
  release=$(sed -n 's/^# R\([0-9]*\) .*/\1/p' /etc/nv_tegra_release 2>/dev/null || true)
  case $release in
  '') ;;
  32) echo 4 ;;
  35) echo 5 ;;
  36) echo 6 ;;
  38 | 39) echo 7 ;;
  *) echo "unknown (L4T R$release)" ;;
  esac
}

check_machine() {
  [ "$(uname -s)" = Linux ] || fail "the service needs Linux, not $(uname -s)"
  machine=$(uname -m)
  case $machine in
  x86_64) platform=linux-x64 ;;
  aarch64) platform=linux-arm64 ;;
  *) fail "Brim has no binaries for $machine" 'use a 64-bit system: aarch64 or x86_64' ;;
  esac
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2 || true)
  [ -n "$glibc" ] || fail 'the C library is not glibc' 'use a system with glibc, such as Debian, Ubuntu or JetPack'
  jetpack=$(jetpack)
  say "machine: $platform, glibc $glibc${jetpack:+, JetPack $jetpack}"
  if [ -f "$source/release.json" ]; then
    [ "$(release_field platform)" = "$platform" ] ||
      fail "this archive is for $(release_field platform)" "the archive for $platform"
    needed=$(release_field glibc)
    [ "$(version_number "$glibc")" -ge "$(version_number "$needed")" ] ||
      fail "this archive needs glibc $needed or newer; this system has $glibc" \
        'JetPack 5 or newer, or Debian 10, Ubuntu 20.04 or newer'
    say "program: Brim $(release_field version) with Node $(release_field node), needs glibc $needed"
  else
    [ -f "$source/dist/brim.js" ] && [ -d "$source/node_modules" ] || fail "$source is not built" 'scripts/setup'
    node=$(command -v node || true)
    [ -n "$node" ] || fail 'node was not found' 'install Node 20.19 or newer, or use the archive, which has its own'
    "$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
      fail "node $("$node" --version) is too old" 'Node 20.19 or newer, or the archive, which has its own'
    say "program: the checkout $source with Node $("$node" --version)"
  fi
  if [ "$source" != "$program" ] && is_packaged; then
    fail "$program belongs to the Debian package brim" 'update the package, then run /opt/brim/jetson/install.sh'
  fi
  [ "$jetpack" != 4 ] ||
    warn 'JetPack 4 has glibc 2.27: Node and ONNX Runtime need 2.28. Use a container (docs/packages.md)'
}

# In KiB. The program is copied beside the old one before it replaces it.
check_disk() {
  [ "$source" != "$program" ] || return 0
  size=$(du -sk "$source" | cut -f1)
  folder=$destdir/opt
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  free=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
  say "disk: the program needs $((size / 1024)) MiB, $((free / 1024)) MiB are free at $folder; bundles and state go to $state"
  [ "$free" -gt "$size" ] || fail "$folder has too little free space" 'free some, or use the archive, which is smaller than a checkout'
}

# To a service, which has folders of its own in the place of these.
is_visible() {
  case $1 in
  /home/* | /root/* | /tmp/* | /var/tmp/*) [ -n "$destdir" ] ;;
  esac
}

check_slm() {
  [ -n "$slm" ] || return 0
  case $slm in
  *[!A-Za-z0-9/._+-]*) fail "$slm has a character that a unit cannot hold" 'a name of letters, digits, . _ + -' ;;
  esac
  [ -f "$slm" ] || fail "$slm is no file" 'a model in the format of llama.cpp (GGUF)'
  slm=$(cd "$(dirname "$slm")" && pwd -P)/$(basename "$slm")
  is_visible "$slm" || fail "$slm_service cannot read $slm" "copy it to $state/models or /opt first"
  [ -n "$(find "$slm" -perm -o=r)" ] || fail "$slm_service cannot read $slm" "chmod o+r $slm"
  [ -x "$destdir$slm_program" ] || fail "llama.cpp's server was not found as $slm_program" 'build it as docs/jetson.md shows'
}

check_rights() {
  [ -n "$dry_run" ] || [ -n "$destdir" ] || [ "$(id -u)" = 0 ] || fail 'the installation needs root' 'sudo'
  [ -n "$destdir" ] || has_systemd || warn 'systemd does not run here: the service is installed, but not started'
  [ -z "$token" ] || [ -r "$token" ] || fail "the token file $token cannot be read" 'the file of "brim bridge token create --out FILE"'
  check_slm
  case $bundle in
  '') return 0 ;;
  "$program"/bundles/*) found=$source${bundle#"$program"} ;;
  esac
  is_visible "$bundle" || fail "the service cannot read $bundle" "copy it to $state/bundles or /opt first"
  [ -f "${found:-$bundle}/manifest.json" ] || fail "$bundle is no bundle" 'a folder that "brim model build" has made'
}

# Files of a GPU's driver, by which one is known.
gpu_devices() {
  for device in "$destdir"/dev/nvmap "$destdir"/dev/nvhost-* "$destdir"/dev/nvgpu/*/ctrl "$destdir"/dev/nvidiactl "$destdir"/dev/dri/renderD*; do
    [ ! -e "$device" ] || echo "$device"
  done
}

has_gpu() {
  [ "$gpu" != no ] || return 1
  [ "$gpu" = yes ] || [ -n "$(gpu_devices)" ]
}

# Those that own the devices of GPUs, as far as the system has them.
gpu_groups() {
  for group in video render; do
    ! getent group "$group" >/dev/null 2>&1 || printf ' %s' "$group"
  done
}

has_vulkan_library() {
  for file in "$destdir"/usr/lib/libvulkan.so.1 "$destdir"/usr/lib/*/libvulkan.so.1 "$destdir"/usr/lib64/libvulkan.so.1 \
    "$destdir"/usr/local/lib/libvulkan.so.1; do
    [ ! -e "$file" ] || return 0
  done
  [ -z "$destdir" ] && ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1 '
}

has_vulkan_driver() {
  for file in "$destdir"/etc/vulkan/icd.d/*.json "$destdir"/usr/share/vulkan/icd.d/*.json "$destdir"/usr/local/share/vulkan/icd.d/*.json; do
    [ ! -e "$file" ] || return 0
  done
  return 1
}

# Says what a GPU lacks. It is no reason to stop: the CPU computes without it.
check_gpu() {
  has_gpu || return 0
  has_vulkan_library || warn 'libvulkan.so.1 was not found, so WebGPU cannot use the GPU. Install it: apt-get install libvulkan1'
  has_vulkan_driver || warn 'no Vulkan driver is in /etc/vulkan/icd.d or /usr/share/vulkan/icd.d. The driver of the GPU installs one'
  devices=$(gpu_devices)
  [ -n "$devices" ] || warn 'no device of a GPU was found: no /dev/dri/renderD*, /dev/nvhost-*, /dev/nvgpu, /dev/nvmap or /dev/nvidiactl'
  groups=$(gpu_groups)
  [ -n "$groups" ] || warn "this system has no group video or render, which $user would join to open the devices of the GPU"
  for device in $devices; do
    owner=$(stat -c %G "$device")
    case " $groups " in *" $owner "*) continue ;; esac
    [ -n "$(find "$device" -perm -o=rw)" ] ||
      warn "${device#"$destdir"} belongs to the group $owner. $user${groups:+, in the groups$groups,} cannot open it"
  done
}

# --- steps ----------------------------------------------------------------------------------------------------------------

add_user() {
  if [ -n "$destdir" ] || id "$user" >/dev/null 2>&1; then return 0; fi
  say "user: $user, without shell and home"
  # The group may be there already: not every system removes it with the user.
  group=--user-group
  ! getent group "$user" >/dev/null 2>&1 || group=--gid=$user
  change useradd --system "$group" --home-dir "$state" --no-create-home --shell /usr/sbin/nologin "$user"
}

copy_program() {
  to=$destdir$program
  if [ "$source" = "$program" ]; then return 0; fi
  if [ -f "$source/release.json" ] && cmp -s "$source/release.json" "$to/release.json"; then
    say "program: $program is this version already"
    return 0
  fi
  say "program: copied to $program"
  change rm -rf "$to.new"
  change mkdir -p "$to.new"
  if [ -f "$source/release.json" ]; then
    change cp -R "$source/." "$to.new"
  else
    # The layout of an archive, with this machine's Node.
    for part in package.json LICENSE README.md dist node_modules models jetson bin lib; do
      [ ! -e "$source/$part" ] || change cp -RL "$source/$part" "$to.new/$part"
    done
    change mv "$to.new/bin/brim" "$to.new/bin/brim.cjs"
    change cp "$source/scripts/packaging/launcher.sh" "$to.new/bin/brim"
    change chmod 755 "$to.new/bin/brim"
    change mkdir -p "$to.new/node/bin"
    change cp -L "$(readlink -f "$node")" "$to.new/node/bin/node"
  fi
  # The service may run as another user than the one that built it.
  change chmod -R u=rwX,go=rX "$to.new"
  [ -n "$destdir" ] || change chown -R root:root "$to.new"
  change rm -rf "$to.old"
  [ ! -e "$to" ] || change mv "$to" "$to.old"
  change mv "$to.new" "$to"
  change rm -rf "$to.old"
  # What was installed by hand counts from now on, not a release that a job installed before.
  [ ! -d "$destdir$state/agent" ] || as_user rm -f "$destdir$state/agent/releases/current"
}

# folder, mode, group
add_folder() {
  change mkdir -p "$destdir$1"
  change chmod "$2" "$destdir$1"
  [ -n "$destdir" ] || change chown "$3" "$destdir$1"
}

add_folders() {
  add_folder "$config" 750 "root:$user"
  add_folder "$state" 755 root:root
  add_folder "$state/$role" 700 "$user:$user"
  [ "$role" = agent ] || add_folder "$state/bundles" 700 "$user:$user"
  change mkdir -p "$destdir/usr/local/bin"
  is_packaged || change ln -sfn "$program/bin/brim" "$destdir/usr/local/bin/brim"
}

own_id() {
  if [ -n "$id" ]; then printf '%s' "$id"
  elif [ "$role" = bridge ]; then printf bridge-1
  else uname -n | cut -d. -f1 | tr '[:upper:]_' '[:lower:]-'; fi
}

# Of the small model, for the agent.
slm_name() { basename "$slm" .gguf; }

write_config() {
  file=$destdir$config/$role.yaml
  if [ -e "$file" ]; then
    say "configuration: $config/$role.yaml stays as it is"
    [ -z "$slm" ] || grep -qs '^slm-server:' "$file" ||
      warn "the agent does not use $slm_service yet. Add to $config/$role.yaml: slm-server: $slm_url and slm-server-model: $(slm_name)"
    return 0
  fi
  say "configuration: $config/$role.yaml, id $(own_id)"
  [ -z "$dry_run" ] || return 0
  sed -e "s|^#id: .*|id: $(own_id)|" ${bundle:+-e "s|^#bundle: .*|bundle: $bundle|"} \
    ${slm:+-e "s|^#slm-server: .*|slm-server: $slm_url|" -e "s|^#slm-server-model: .*|slm-server-model: \"$(slm_name)\"|"} \
    "$source/jetson/$role.yaml" >"$file.new"
  chmod 640 "$file.new"
  [ -n "$destdir" ] || chown "root:$user" "$file.new"
  mv "$file.new" "$file"
}

# Writes a unit, and the drop-in that opens the devices of the GPU to it.
write_unit() {
  say "service: $units/$1.service"
  change mkdir -p "$destdir$units"
  change cp "$source/jetson/$1.service" "$destdir$units/$1.service"
  change chmod 644 "$destdir$units/$1.service"
  drop_in=$destdir$units/$1.service.d/gpu.conf
  if has_gpu; then
    say "GPU: $units/$1.service.d/gpu.conf, groups$(gpu_groups)"
    [ -z "$dry_run" ] || return 0
    mkdir -p "$(dirname "$drop_in")"
    { cat "$source/jetson/gpu.conf"; echo "SupplementaryGroups=$(gpu_groups)"; } >"$drop_in"
  elif [ -e "$drop_in" ]; then
    change rm "$drop_in"
  fi
}

has_slm_service() { [ "$role" = agent ] && [ -e "$destdir$units/$slm_service.service" ]; }

write_units() {
  write_unit "$service"
  if [ -n "$slm" ] || has_slm_service; then write_unit "$slm_service"; fi
  [ -n "$slm" ] || return 0
  say "small model: $slm, named $(slm_name); settings in $config/slm-server.env"
  [ -z "$dry_run" ] || return 0
  file=$destdir$config/slm-server.env
  from=$file
  [ -e "$file" ] || from=$source/jetson/slm-server.env
  sed -e "s|^LLAMA_ARG_MODEL=.*|LLAMA_ARG_MODEL=$slm|" -e "s|^LLAMA_ARG_ALIAS=.*|LLAMA_ARG_ALIAS=$(slm_name)|" "$from" >"$file.new"
  chmod 640 "$file.new"
  mv "$file.new" "$file"
}

enrol() {
  [ -n "$token" ] || return 0
  device=$(sed -n 's/^id: *//p' "$destdir$config/agent.yaml" 2>/dev/null || true)
  if grep -qs '"device"' "$state/agent/identity/enrolments.json"; then
    say 'enrolment: this device is enrolled already'
    return 0
  fi
  say "enrolment: device ${device:-$(own_id)} with the token in $token"
  [ -z "$dry_run" ] || return 0
  # The token stays unreadable for the service's user.
  as_user "$program/bin/brim" agent enroll --id "$device" --state-dir "$state/agent" --token-file - <"$token" ||
    fail 'this device was not enrolled' 'run the same command again with a new token; everything else is installed'
}

start_service() {
  [ -z "$destdir" ] && has_systemd || return 0
  change systemctl daemon-reload
  [ -n "$start" ] || return 0
  if has_slm_service; then
    say "start: $slm_service"
    change systemctl enable --quiet "$slm_service"
    change systemctl restart "$slm_service" || warn "$slm_service does not start: journalctl -u $slm_service -n 50"
  fi
  say "start: $service"
  change systemctl enable --quiet "$service"
  # Also takes over what this run has changed. It waits until the service is ready.
  change systemctl restart "$service" || fail "$service does not start" "journalctl -u $service -n 50"
}

finish() {
  [ -z "$dry_run" ] || { say 'nothing was changed (--dry-run)'; return 0; }
  say "installed. Next: brim $role config check; systemctl status $service; journalctl -fu $service; brim doctor"
}

remove_unit() {
  say "removing: $1"
  if has_systemd; then
    change systemctl disable --quiet --now "$1" || true
  fi
  change rm -rf "$destdir$units/$1.service" "$destdir$units/$1.service.d"
}

remove() {
  if has_slm_service; then remove_unit "$slm_service"; fi
  remove_unit "$service"
  other=bridge
  [ "$role" = agent ] || other=agent
  if [ -e "$destdir$units/brim-$other.service" ]; then
    say "$program stays: brim-$other uses it"
  elif is_packaged; then
    say "$program stays: it belongs to the Debian package brim"
  else
    say "removing: $program and the command brim"
    change rm -rf "$destdir$program" "$destdir/usr/local/bin/brim"
  fi
  if [ -n "$purge" ]; then
    say "removing: configuration, keys and state of the $role"
    change rm -rf "$destdir$config/$role.yaml" "$destdir$config/$role.env" "$destdir$state/$role"
    change rm -rf "$destdir/var/cache/$service"
    if [ "$role" = agent ]; then
      change rm -rf "$destdir$config/slm-server.env" "$destdir/var/cache/$slm_service" "$destdir/var/cache/private/$slm_service"
    else
      change rm -rf "$destdir$state/bundles"
    fi
    # What the other service has left stays.
    change rmdir "$destdir$config" "$destdir$state" 2>/dev/null || true
    if [ -z "$destdir" ] && [ ! -e "$state" ] && id "$user" >/dev/null 2>&1; then change userdel "$user"; fi
  else
    say "configuration and state stay in $config and $state; --purge removes them"
  fi
  if has_systemd; then change systemctl daemon-reload; fi
}

if [ -n "$uninstall" ]; then
  check_rights
  remove
  exit 0
fi
check_machine
check_disk
check_rights
check_gpu
add_user
copy_program
add_folders
write_config
write_units
enrol
start_service
finish
