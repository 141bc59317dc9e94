# What is graded is a process of its own already; what it does is compared here.
mark="m$$-$RANDOM$RANDOM"
right=0
for index in 1 2; do
    printf 'Hello, file %s.\nsecond line\n' "$index" > ".$mark-$index"
    mv ".$mark-$index" "inbox/$mark-$index.txt"
done
echo 'let me be' > ".$mark-3" && mv ".$mark-3" "inbox/$mark-3.data"
for _ in $(seq 25); do
    ls inbox/"$mark"-*.txt > /dev/null 2>&1 || break
    sleep 0.1
done
sleep 0.2
for index in 1 2; do
    wanted=$(printf 'HELLO, FILE %s.\nSECOND LINE\n' "$index")
    [ ! -e "inbox/$mark-$index.txt" ] && [ "$(head -c 1000 "outbox/$mark-$index.txt" 2>&1)" = "$wanted" ] && right=$((right + 1))
done
[ "$(head -c 1000 "inbox/$mark-3.data" 2>&1)" = 'let me be' ] || { echo "the other file is gone"; right=0; }
rm -f inbox/"$mark"-* outbox/"$mark"-*
echo "$right of 2 files were handled"
case $right in 2) echo 1.0 ;; 1) echo 0.5 ;; *) echo 0.0 ;; esac
