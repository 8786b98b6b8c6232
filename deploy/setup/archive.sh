# shellcheck shell=bash
# Asks the machine's Debian archive for a suite or component that its apt sources do not name, through a
# state directory of our own. The archive's address, key and options are those of the machine's own entry,
# and the machine's sources and lists stay as they are.

system_codename() { system_value VERSION_CODENAME; }

# Prints FILE:NUMBER of the entry for this release: the line in a .list file, the stanza in a .sources file.
# apt itself reads the sources, so both forms and all places are covered.
# shellcheck disable=SC2016 # apt expands the $(...)
archive_entry() {
  local codename entry
  codename=$(system_codename)
  entry=$(apt-get indextargets --format '$(SOURCESENTRY)' 'Created-By: Packages' 'Component: main' \
    'Origin: Debian' 'Label: Debian' "Codename: $codename" | sed -n 1p)
  if [[ -z $entry ]]; then
    # Without downloaded lists only the suite's name as written is known.
    entry=$(apt-get indextargets --no-release-info --format '$(SOURCESENTRY)' 'Created-By: Packages' \
      'Component: main' "Release: $codename" | sed -n 1p)
  fi
  echo "$entry"
}

# line_entry FILE LINE TYPE SUITE COMPONENTS: a one-line entry, with another type, suite and components.
line_entry() {
  sed -n "$2p" "$1" | sed -E "s|^[[:space:]]*deb(-src)?[[:space:]]+((\[[^]]*\][[:space:]]+)?)([^[:space:]]+).*|$3 \2\4 $4 $5|"
}

# stanza_entry FILE NUMBER TYPE SUITE COMPONENTS: the same for a deb822 stanza. Fields with more than one
# line (a key in the file itself) are kept whole. Only the package index is asked for, nothing for desktops.
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

# archive_source FOLDER TYPE SUITE COMPONENTS: writes the entry as a file of FOLDER.
archive_source() {
  local folder=$1 entry file number
  shift
  entry=$(archive_entry)
  if [[ -z $entry ]]; then
    echo "None of the apt sources of this machine is a Debian archive for '$(system_codename)'." >&2
    return 1
  fi
  file=${entry%:*}
  number=${entry##*:}
  case $file in
    *.sources) stanza_entry "$file" "$number" "$@" >"$folder/fulcrum-$1-$2.sources" ;;
    *) line_entry "$file" "$number" "$@" >"$folder/fulcrum-$1-$2.list" ;;
  esac
}

# copy_machine_sources FOLDER: the entries that the machine has, beside which ours is put.
copy_machine_sources() {
  local file
  [[ ! -f /etc/apt/sources.list ]] || cp /etc/apt/sources.list "$1/machine.list"
  for file in /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $file ]] || cp "$file" "$1/"
  done
}

# new_archive: makes the state directory and prints its path; archive_apt is then apt-get with it.
# It is a temporary directory which apt's own user can enter, so that downloads stay in apt's sandbox.
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

# archive_apt STATE ARGUMENTS...: for whoever runs this; apt_get -c STATE/apt.conf is the same for root.
archive_apt() {
  local state=$1
  shift
  LC_ALL=C apt-get -q -c "$state/apt.conf" "$@"
}

# Files that root's apt left in the state directory belong to root.
remove_archive() { [[ -z $1 ]] || rm -rf -- "$1" 2>/dev/null || as_root rm -rf -- "$1"; }
