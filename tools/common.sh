# shellcheck shell=bash disable=SC2154
# Shared by the scripts in this folder: where the project is, and how it is set up and built.
# Sourced by them with `root` set to the project's folder. All messages go to stderr, so that the output of the program that
# runs afterwards stays clean. TCC_SKIP_SETUP=1 leaves the packages alone (systems other than Debian).

run_setup() {
  [[ ${TCC_SKIP_SETUP:-0} == 1 ]] || "$root/tools/setup" >&2
}

# Runs a command while holding the project's build lock, so that two first uses do not build into each other.
with_build_lock() {
  mkdir -p "$root/build"
  (
    if ! flock -n 9; then
      printf 'tcc: another build of this checkout is running; waiting for it\n' >&2
      flock 9
    fi
    "$@"
  ) 9>"$root/build/.lock"
}

# configure PRESET: makes build/PRESET/build.ninja; CMake's own output is shown only when it fails.
configure() {
  local preset=$1 dir=$root/build/$1 fresh=() log
  if [[ -f $dir/CMakeCache.txt ]]; then
    if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$dir/CMakeCache.txt"; then
      fresh=(--fresh) # the checkout was moved or copied together with its build folder
    elif [[ -f $dir/build.ninja ]]; then
      return 0 # ninja configures again by itself when a CMake file or the set of sources changes
    fi
  fi
  mkdir -p "$root/build"
  log=$root/build/configure-$preset.log
  if ! (cd "$root" && cmake --preset "$preset" "${fresh[@]}") >"$log" 2>&1; then
    cat "$log" >&2
    printf 'tcc: error: CMake could not configure the preset %s; its output is above and in %s\n' "$preset" "$log" >&2
    return 1
  fi
}

# build PRESET [TARGET...]: builds with ninja's own progress on stderr. After a build of everything or of `tcc`, the file
# .tcc-built carries the time before that build, so what changes while it runs is built next time.
build() {
  local preset=$1 dir=$root/build/$1
  shift
  configure "$preset" || return 1
  : >"$dir/.tcc-built.new"
  if ! NINJA_STATUS='[%f/%t, %es] ' ninja -C "$dir" "$@" >&2; then
    printf 'tcc: error: the build failed; the message of the compiler is above\n' >&2
    return 1
  fi
  if [[ $# -eq 0 || " $* " == *" tcc "* ]]; then
    mv "$dir/.tcc-built.new" "$dir/.tcc-built"
  fi
}
