#!/bin/sh
# Makes the buckets, users and policies that the chart lists, and removes users it lists no more.
# Every step may be repeated. Keys go through stdin: arguments can be read by others.
set -eu
export HOME="${TMPDIR:-/tmp}" MC_CONFIG_DIR="${TMPDIR:-/tmp}/mc"
config=${PROVISION_CONFIG:-/etc/hansa/provision} keys=${PROVISION_KEYS:-/etc/hansa/users}

connect() { printf '%s\n%s\n' "$MINIO_ROOT_USER" "$MINIO_ROOT_PASSWORD" | mc alias set hansa "$MINIO_URL"; }

make_user() {
    { printf '%s\n' "$1"; cat "$keys/$1"; printf '\n'; } | mc admin user add hansa
    mc admin policy create hansa "hansa-$1" "$config/$1.json"
    said=$(mc admin policy attach hansa "hansa-$1" --user "$1" 2>&1) && return
    case "$said" in
        *"already in effect"* | *"no net effect"*) ;;
        *) printf 'error: policy of %s: %s\n' "$1" "$said" >&2; return 1 ;;
    esac
}

tries=0
until said=$(connect 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || { printf 'error: %s: %s\n' "$MINIO_URL" "$said" >&2; exit 1; }
    sleep 2
done

while read -r bucket <&3; do
    mc mb --ignore-existing "hansa/$bucket"
done 3<"$config/buckets"

# Four at a time: each waits for the server to stretch its key.
running=''
settle() { for each in $running; do wait "$each"; done; running=''; }
while read -r user <&3; do
    make_user "$user" &
    running="$running $!"
    case "$running" in *' '*' '*' '*' '*) settle ;; esac
done 3<"$config/users"
settle

# As JSON, one user to a line: the table cuts long names.
mc admin user list hansa --json >"$HOME/known"
while read -r line <&3; do
    user=${line#*'"accessKey":"'}
    user=${user%%'"'*}
    case "$line" in *"\"policyName\":\"hansa-$user\""*) ;; *) continue ;; esac
    [ ! -e "$config/$user.json" ] || continue
    mc admin user remove hansa "$user"
    mc admin policy remove hansa "hansa-$user"
done 3<"$HOME/known"
printf 'done\n'
