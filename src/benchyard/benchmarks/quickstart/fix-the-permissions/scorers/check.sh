# Looks at the files only: nothing of who is graded runs here.
status=0
want() {
    said=$(stat -c '%a %F' -- "$2" 2>&1)
    [ "$said" = "$1" ] || { echo "$2: $said instead of $1"; status=1; }
}
want '755 regular file' bin/start
want '755 regular file' bin/stop
want '700 directory' keys
want '600 regular file' keys/server.key
want '600 regular file' keys/client.key
want '755 directory' docs
want '755 directory' docs/old
want '644 regular file' docs/README
want '644 regular file' 'docs/old/an old page'
[ "$(cat bin/start bin/stop keys/client.key keys/server.key docs/README 'docs/old/an old page' 2>&1 | cksum)" = \
    "$(printf '#!/bin/sh\necho start\n#!/bin/sh\necho stop\nsecret of client\nsecret of server\nRead me\nOld\n' | cksum)" ] ||
    { echo "what is in the files has changed"; status=1; }
exit $status
