# What is graded is a process of its own already; what it does is compared here, by another user.
mark="m$$-$RANDOM$RANDOM"
"$BENCHYARD_GRADED" bash -c '
    for index in 1 2; do
        printf "Hello, file %s.\nsecond line\n" "$index" > ".$1-$index"
        mv ".$1-$index" "inbox/$1-$index.txt"
    done
    echo "let me be" > ".$1-3" && mv ".$1-3" "inbox/$1-3.data"' bash "$mark"
is_right() {
    [ ! -e "inbox/$mark-$1.txt" ] && [ -f "outbox/$mark-$1.txt" ] &&
        [ "$(head -c 1000 "outbox/$mark-$1.txt" 2>&1)" = "$(printf 'HELLO, FILE %s.\nSECOND LINE\n' "$1")" ]
}
for _ in $(seq 50); do
    is_right 1 && is_right 2 && break
    sleep 0.1
done
right=0
for index in 1 2; do is_right "$index" && right=$((right + 1)); done
[ "$(head -c 1000 "inbox/$mark-3.data" 2>&1)" = 'let me be' ] || { echo "the other file is gone"; right=0; }
rm -f inbox/"$mark"-* outbox/"$mark"-*
echo "$right of 2 files were handled"
case $right in 2) echo 1.0 ;; 1) echo 0.5 ;; *) echo 0.0 ;; esac
