cat > watch.sh <<'END'
while true; do
    for file in inbox/*.txt; do
        [ -f "$file" ] || continue
        name=$(basename "$file")
        tr 'a-z' 'A-Z' < "$file" > "outbox/.$name" && mv "outbox/.$name" "outbox/$name" && rm "$file"
    done
    sleep 0.2
done
END
setsid nohup bash watch.sh > watch.log 2>&1 < /dev/null &
