# shellcheck shell=bash
# Accesses a suite or component of the Debian archive that the apt sources of the machine do not include, with
# a separate state directory. The address, key and options of the archive are taken from the existing entry.
# The apt sources and package lists of the machine are not changed.

system_codename() { system_value VERSION_CODENAME; }

# Prints FILE:NUMBER of the entry for this release: the line in a .list file, the stanza in a .sources file.
# apt itself reads the sources, so both formats and all locations are covered.
# shellcheck disable=SC2016 # apt expands the $(...)
archive_entry() {
  local codename entry
  codename=$(system_codename)
  entry=$(apt-get indextargets --format '$(SOURCESENTRY)' 'Created-By: Packages' 'Component: main' \
    'Origin: Debian' 'Label: Debian' "Codename: $codename" | sed -n 1p)
  if [[ -z $entry ]]; then
    # Without downloaded lists, only the suite name in the entry is known.
    entry=$(apt-get indextargets --no-release-info --format '$(SOURCESENTRY)' 'Created-By: Packages' \
      'Component: main' "Release: $codename" | sed -n 1p)
  fi
  echo "$entry"
}

# line_entry FILE LINE TYPE SUITE COMPONENTS: prints a one-line entry with another type, suite and components.
line_entry() {
  sed -n "$2p" "$1" | sed -E "s|^[[:space:]]*deb(-src)?[[:space:]]+((\[[^]]*\][[:space:]]+)?)([^[:space:]]+).*|$3 \2\4 $4 $5|"
}

# stanza_entry FILE NUMBER TYPE SUITE COMPONENTS: the same for a deb822 stanza. Multi-line fields (an embedded
# key) are preserved. Only the package index is requested.
stanza_entry() {
  awk -v wanted="$2" -v types="$3" -v suite="$4" -v components="$5" '
    /^[[:space:]]*$/ { inside = 0; next }
    /^#/ { next }
    !inside { inside = 1; number++ }
    number != wanted { next }
    /^[^[:space:]]/ { drop = tolower($0) ~ /^(types|suites|components|enabled|targets)[[:space:]]*:/ }
    !drop { print }
    END {
      print "Types: " types
      print "Suites: " suite
      print "Components: " components
      print "Targets: " (types == "deb-src" ? "Sources" : "Packages")
    }' "$1"
}

# archive_source FOLDER TYPE SUITE COMPONENTS: writes the entry to a file in FOLDER.
archive_source() {
  local folder=$1 entry file number
  shift
  entry=$(archive_entry)
  if [[ -z $entry ]]; then
    echo "No apt source of this machine is a Debian archive for '$(system_codename)'." >&2
    return 1
  fi
  file=${entry%:*}
  number=${entry##*:}
  case $file in
    *.sources) stanza_entry "$file" "$number" "$@" >"$folder/fulcrum-$1-$2.sources" ;;
    *) line_entry "$file" "$number" "$@" >"$folder/fulcrum-$1-$2.list" ;;
  esac
}

# copy_machine_sources FOLDER: copies the existing apt sources to FOLDER.
copy_machine_sources() {
  local file
  [[ ! -f /etc/apt/sources.list ]] || cp /etc/apt/sources.list "$1/machine.list"
  for file in /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $file ]] || cp "$file" "$1/"
  done
}

# new_archive: creates the state directory and prints its path; archive_apt runs apt-get with it.
# The user _apt can enter the directory, so that downloads run in the apt sandbox.
new_archive() {
  local state
  state=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-apt.XXXXXX")
  chmod 755 "$state"
  mkdir -p "$state/lists/partial" "$state/sources"
  cat >"$state/apt.conf" <<CONFIG
Dir::State::lists "$state/lists";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$state/sources";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
Acquire::Retries "3";
CONFIG
  echo "$state"
}

# archive_apt STATE ARGUMENTS...: runs as the current user; apt_get -c STATE/apt.conf does the same as root.
archive_apt() {
  local state=$1
  shift
  LC_ALL=C apt-get -q -c "$state/apt.conf" "$@"
}

# Files that apt created as root can only be deleted by root.
remove_archive() { [[ -z $1 ]] || rm -rf -- "$1" 2>/dev/null || as_root rm -rf -- "$1"; }
