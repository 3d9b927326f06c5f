#!/bin/sh
# Starts the command line with the Node of this archive.
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$root/node/bin/node" "$root/bin/brim.cjs" "$@"
